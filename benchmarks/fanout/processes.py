"""Runs the provider, the compared sides and the server as processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from judged import Client, Judge, QueryGroup
from judged._load.open_loop import Tally
from judged.credentials import Credentials

from benchmarks.fanout.latency import RATE
from benchmarks.fanout.worker import make_groups
from benchmarks.harness import ROOT, Server

TIMEOUT_S = 60.0


class Worker:
    """A process of `worker`: makes calls on request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._orders, self._answers = _pipes(process)
        self._read()

    def run(self, calls: int, seed: int) -> dict[str, float]:
        """Return the wall and CPU seconds of `calls` calls."""
        spent: dict[str, float] = self._answer_to({"calls": calls, "seed": seed})
        return spent

    def latencies(self, calls: int, seed: int) -> Tally:
        """Return the latencies of contexts at RATE a second, minus the provider's time."""
        tally = Tally()
        for took_ms in self._answer_to({"calls": calls, "seed": seed, "rate": RATE}):
            tally.record(took_ms / 1e3)
        return tally

    def _answer_to(self, order: dict[str, float]) -> Any:  # noqa: ANN401 - depends on the order
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()
        return json.loads(self._read())

    def _read(self) -> str:
        line = self._answers.readline()
        if not line:
            raise SystemExit(f"a worker ended with {self._process.wait()}")
        return line


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the process was started without pipes")
    return process.stdin, process.stdout


def provider_url(process: subprocess.Popen[str]) -> str:
    """Return the URL of a provider that was just started."""
    return f"http://127.0.0.1:{_pipes(process)[1].readline().strip()}/v1"


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a module of this folder with pipes, and end it."""
    with subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def batch(
    server: Server,
    calls: int,
    seed: int,
    model: str = "",
    credentials: Credentials | None = None,
) -> dict[str, float]:
    """Return the wall and the server's CPU seconds of one call with `calls` contexts."""
    groups = [QueryGroup(g.query, g.expected, g.retrieved) for g in make_groups(calls, seed)]
    judge = Judge("llm", parameters={"model": model} if model else {})
    with Client(server.address, credentials=credentials) as client:
        client.server_info()
        cpu, wall = server.cpu_seconds(), time.perf_counter()
        verdicts = client.judge(groups, judge, timeout=TIMEOUT_S)
        wall = time.perf_counter() - wall
    if verdicts.n_ok != calls:
        raise SystemExit(f"verdicts are missing: {next(iter(verdicts.errors.values()))}")
    return {"wall_s": wall, "cpu_s": server.cpu_seconds() - cpu}


def to_toml(document: dict[str, object]) -> str:
    """Return a document of lists of flat tables as TOML."""
    lines: list[str] = []
    for name, tables in document.items():
        if not isinstance(tables, list):
            raise TypeError(f"{name} is not a list of tables")
        for table in tables:
            lines += [f"[[{name}]]", *(f"{key} = {json.dumps(table[key])}" for key in table)]
    return "\n".join(lines)
