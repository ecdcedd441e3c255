"""Measures servers that share a PostgreSQL: what sharing saves, and what it costs.

Three servers are asked the same QUESTIONS at once, each in one call, and the provider takes
PROVIDER_S for each. They share a database, or in turn nothing, so that each of them asks the
provider all questions. Then a server with a store and one without are asked one new question after
the other. At last PROCESSES processes claim keys and write rows for them, BATCH at once each,
against the same two statements through psycopg alone.

paid_calls             questions that the three servers asked; QUESTIONS if none is paid twice
wall_over_no_store     seconds until all three have answered
cpu_over_no_store      CPU seconds of the three servers
added_ms               what the store adds to the median time of one question
claims_and_puts_a_s    keys claimed and rows written a second by PROCESSES processes
over_bare_statements   the same over psycopg alone

The database runs without fsync on the same cores as all others.

    python -m benchmarks.store [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
from judged import Client, Judge, QueryGroup, Verdicts
from judged_server.store.kept_rows import Row
from judged_server.store.postgres import PostgresRows

from benchmarks.fanout.processes import provider_url, running, to_toml
from benchmarks.fanout.worker import PAID, configuration, make_groups
from benchmarks.harness import ROOT, Server, closing_line, ratios
from tests.fakes.postgres import Postgres, running_postgres
from tests.integration.server_process import running_server

QUESTIONS, SERVERS = 6_000, 3
PROVIDER_S, AT_ONCE = 0.2, 64
ALONE = 100
PROCESSES, BATCH, TURNS = 3, 128, 150
PAYLOAD = 400
_DAY_S = 86_400
_BARE_CLAIM = """
INSERT INTO bare SELECT key, '' FROM unnest(%b::bytea[]) AS key ORDER BY 1
ON CONFLICT (key) DO NOTHING RETURNING key
"""
_BARE_PUT = """
INSERT INTO bare SELECT * FROM unnest(%b::bytea[], %b::bytea[]) ORDER BY 1
ON CONFLICT (key) DO UPDATE SET payload = EXCLUDED.payload
"""


@contextlib.contextmanager
def servers(count: int, config: str, store: str) -> Iterator[list[Server]]:
    """Yield servers that share a store, or nothing if `store` is empty."""
    env = {"JUDGED_STORE": store} if store else {}
    with contextlib.ExitStack() as stack:
        flags = ("--llm-config", config, "--llm-cache", "memory")
        started = [stack.enter_context(running_server(*flags, env=env)) for _ in range(count)]
        yield [Server(each.address, each.process.pid, each.log) for each in started]


def questions(count: int, seed: int) -> list[QueryGroup]:
    """Return groups of one question each."""
    return [
        QueryGroup(group.query, group.expected, [retrieved])
        for group in make_groups(count, seed)
        for retrieved in group.retrieved
    ]


def judge(client: Client, groups: list[QueryGroup]) -> Verdicts:
    """Return the verdicts of one call."""
    verdicts = client.judge(groups, Judge("llm", parameters={"model": PAID}), timeout=300)
    if verdicts.n_ok != len(groups):
        raise SystemExit(f"verdicts are missing: {next(iter(verdicts.errors.values()))}")
    return verdicts


def all_at_once(config: str, store: str, seed: int) -> tuple[float, float, int]:
    """Return the wall seconds, the CPU seconds and the paid calls of SERVERS servers."""
    groups = questions(QUESTIONS, seed)
    with contextlib.ExitStack() as stack:
        asked = stack.enter_context(servers(SERVERS, config, store))
        clients = [stack.enter_context(Client(server.address)) for server in asked]
        for number, client in enumerate(clients, 1):
            judge(client, questions(10, seed + number))
        before = sum(server.cpu_seconds() for server in asked)
        began = time.perf_counter()
        with ThreadPoolExecutor(SERVERS) as pool:
            found = list(pool.map(lambda client: judge(client, groups), clients))
        wall = time.perf_counter() - began
        cpu = sum(server.cpu_seconds() for server in asked) - before
    return wall, cpu, sum(verdicts.usage.calls for verdicts in found if verdicts.usage)


def alone_s(server: Server, seed: int) -> float:
    """Return the median seconds of one new question."""
    took = []
    with Client(server.address) as client:
        for group in questions(ALONE, seed):
            began = time.perf_counter()
            judge(client, [group])
            took.append(time.perf_counter() - began)
    return statistics.median(took)


async def claim_and_put(url: str) -> None:
    """Claim and write TURNS times BATCH new rows."""
    rows = PostgresRows(url, _DAY_S)
    try:
        for _ in range(TURNS):
            new = [Row(os.urandom(32), os.urandom(PAYLOAD), int(time.time())) for _ in range(BATCH)]
            await asyncio.gather(*(rows.claim(row.key) for row in new))
            await asyncio.gather(*(rows.keep(row, 30) for row in new))
    finally:
        await asyncio.to_thread(rows.close)


def bare_statements(url: str) -> None:
    """Do the same by psycopg alone."""
    with psycopg.connect(url, autocommit=True) as db:
        for _ in range(TURNS):
            keys = [os.urandom(32) for _ in range(BATCH)]
            db.execute(_BARE_CLAIM, [keys], binary=True).fetchall()
            db.execute(_BARE_PUT, [keys, [os.urandom(PAYLOAD) for _ in keys]])


def rate(url: str, side: str) -> float:
    """Return the rows a second of PROCESSES processes of a side, from when all are ready."""
    command = [sys.executable, "-m", "benchmarks.store", "--side", side, "--url", url]
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
        for _ in range(PROCESSES)
    ]
    for process in started:
        process.stdout.readline()  # type: ignore[union-attr] # a pipe, as asked for
    began = time.perf_counter()
    for process in started:
        process.stdin.close()  # type: ignore[union-attr]
    if any(process.wait() for process in started):
        raise SystemExit(f"{side} failed")
    return PROCESSES * TURNS * BATCH / (time.perf_counter() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print("ready", flush=True)
        sys.stdin.read()
        if arguments.side == "bare":
            bare_statements(arguments.url)
        else:
            asyncio.run(claim_and_put(arguments.url))
        return
    with tempfile.TemporaryDirectory() as name, running_postgres() as database:
        measure(Path(name), database, arguments.rounds)


def measure(folder: Path, database: Postgres, rounds: int) -> None:
    """Run all rounds and print their figures."""
    samples: dict[str, list[float]] = {}

    def record(name: str, value: float) -> None:
        samples.setdefault(name, []).append(value)
        print(f"{name} {value:.3f}", flush=True)

    with running("benchmarks.fanout.provider", str(PROVIDER_S)) as provider:
        config = folder / "llm.toml"
        config.write_text(to_toml(configuration(provider_url(provider), AT_ONCE)))
        for number in range(rounds):
            seed = 10 * number
            alone = all_at_once(str(config), "", seed)
            shared = all_at_once(str(config), database.url, seed)
            record("paid_calls", shared[2])
            record("wall_over_no_store", shared[0] / alone[0])
            record("cpu_over_no_store", shared[1] / alone[1])
    with running("benchmarks.fanout.provider", "0.02") as provider:
        config.write_text(to_toml(configuration(provider_url(provider), AT_ONCE)))
        with (
            servers(1, str(config), "") as [without],
            servers(1, str(config), database.url) as [with_store],
        ):
            for number in range(rounds + 1):
                one, other = (alone_s(each, 1000 + number) for each in (without, with_store))
                if number:  # the first warms up
                    record("added_ms", 1e3 * (other - one))
    database.run("CREATE TABLE bare (key bytea PRIMARY KEY, payload bytea NOT NULL)")
    bare, ours = [], []
    for _ in range(rounds):
        bare.append(rate(database.url, "bare"))
        ours.append(rate(database.url, "ours"))
        record("claims_and_puts_a_s", ours[-1])
    samples["over_bare_statements"] = ratios(ours, bare)
    facts = {"questions": QUESTIONS, "provider_s": PROVIDER_S, "at_once": AT_ONCE, "batch": BATCH}
    print(closing_line("store", samples, facts=facts))


if __name__ == "__main__":
    main()
