"""Asks what the judge `llm` costs on top of asking, against a bare loop and an SDK.

A scripted provider, in a process of its own, answers each call after 200 ms. In every round a bare
aiohttp loop, the `openai` package's AsyncOpenAI with a semaphore, and the judge do the same 2,000
calls, 256 at once, each in a process of its own (`fanout_worker`), one after the other. Then the
same contexts go through a server in one BatchJudge, and small calls to it, a context each, leave
200 times a second whether or not earlier ones are back.

wall_over_bare_loop             wall seconds of the judge over those of the bare loop
cpu_over_bare_loop              CPU seconds, likewise: prompts, limits, retries, cache, parsing
calls_per_cpu_s_over_openai_sdk calls a CPU second of the judge over those of the SDK
overhead_ms_p50, _p95, _p99     from when a small call was due to its verdict, less what the
                                provider took, from the last byte of the request to its answer:
                                gRPC, the judge, HTTP, and whoever else wants these cores
grpc_ms_p50, _p95, _p99         the same calls to the judge `exact`, which asks nobody: the share
                                of gRPC and of this machine in the overhead
judge_ms_p50, _p95, _p99        the same contexts, given to the judge in its own process, without
                                gRPC: what the judge adds to HTTP
bare_ms_p50, _p95, _p99         the same questions asked by a bare aiohttp loop, likewise less what
                                the provider took: the share of HTTP and of this machine
overhead_over_floor_p50, ...    overhead_ms over the sum of grpc_ms and bare_ms, round by round: a
                                call can't be quicker than the two things that it is made of
judge_over_bare_p50, ...        judge_ms over bare_ms, round by round
server_wall_over_bare_loop      wall seconds of the BatchJudge over those of the bare loop
server_cpu_over_bare_loop       CPU seconds of the server during it, likewise
bare_over_ideal                 wall seconds of the bare loop over calls * latency / concurrency
cpu_ms_bare, cpu_ms_judge, cpu_ms_sdk      CPU of a call

    python -m benchmarks.fanout [--calls 2000] [--repeats 5] [--latency 0.2] [--concurrency 256]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import aiohttp
import orjson
import uvloop
from judged import Client, QueryGroup
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import types_pb2

from benchmarks.departures import depart
from benchmarks.fanout_worker import bodies, configuration, make_groups
from benchmarks.harness import ROOT, Server, closing_line, ratios, serving
from benchmarks.open_loop import Request, Tally, arrivals, drive, microseconds

SIDES = ("bare", "judge", "sdk")
SEED = 53
WARM_UP_CALLS = 256
RATE = 200.0
PERCENTILES = (50, 95, 99)
TIMEOUT_S = 60.0


class Worker:
    """A process that asks when told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._orders, self._answers = _pipes(process)
        self._read()

    def run(self, calls: int, seed: int) -> dict[str, float]:
        """Return the wall and CPU seconds that so many calls took."""
        spent: dict[str, float] = self._told({"calls": calls, "seed": seed})
        return spent

    def latencies(self, calls: int, seed: int) -> Tally:
        """Return how long contexts took at RATE a second on top of the provider."""
        tally = Tally()
        for took_ms in self._told({"calls": calls, "seed": seed, "rate": RATE}):
            tally.histogram.record_value(microseconds(took_ms / 1e3))
        return tally

    def _told(self, order: dict[str, float]) -> Any:  # noqa: ANN401 - whatever it was asked for
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


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a module of this folder with pipes, and end it."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def batch(server: Server, calls: int, seed: int) -> dict[str, float]:
    """Return the wall seconds of one call with so many contexts, and the server's CPU seconds."""
    groups = [QueryGroup(g.query, g.expected, g.retrieved) for g in make_groups(calls, seed)]
    with Client(server.address) as client:
        client.server_info()
        cpu, wall = server.cpu_seconds(), time.perf_counter()
        verdicts = client.judge(groups, "llm", timeout=TIMEOUT_S)
        wall = time.perf_counter() - wall
    if verdicts.n_ok != calls:
        raise SystemExit(f"verdicts are missing: {next(iter(verdicts.errors.values()))}")
    return {"wall_s": wall, "cpu_s": server.cpu_seconds() - cpu}


def overhead(server: Server, calls: int, seed: int, kind: str = "llm") -> Tally:
    """Return the latencies of small calls at RATE a second to the judge `kind`.

    What the provider took is left out; it tells that as the tokens of the prompt, see
    `fanout_provider`.
    """
    contexts = iter(
        [
            types_pb2.QueryGroup(query=g.query, expected=g.expected, retrieved=[retrieved])
            for g in make_groups(calls + WARM_UP_CALLS, seed)
            for retrieved in g.retrieved
        ]
    )
    judge = types_pb2.JudgeSpec(kind=kind)

    def make() -> Request:
        request = pb.BatchJudgeRequest(judge=judge, groups=[next(contexts)])
        return Request(kind, request.SerializeToString(), 1)

    due = list(arrivals(RATE, calls / RATE, poisson=False, seed=seed))
    outcome = uvloop.run(drive(server.address, due, make, TIMEOUT_S, elsewhere_s=_of_provider_s))
    total = outcome.total
    if total.answered != len(due) or total.missing_verdicts:
        raise SystemExit(f"{len(due) - total.answered} calls failed: {dict(total.errors)}")
    late = outcome.lag.milliseconds(99)
    if late > 5:
        print(f"the generator was {late:.1f} ms late at its p99: part of what it measured")
    return total


def _of_provider_s(answer: pb.BatchJudgeResponse) -> float:
    return answer.usage.input_tokens / 1e6


async def floor(url: str, calls: int, seed: int) -> Tally:
    """Return the latencies of a bare loop that asks the same at RATE a second, as `overhead`."""
    asked = bodies(make_groups(calls + WARM_UP_CALLS, seed))
    tally = Tally()

    async def ask(body: bytes, due: float) -> float:
        async with session.post(f"{url}/chat/completions", data=body) as reply:
            answer = orjson.loads(await reply.read())
        return time.perf_counter() - due - float(answer["usage"]["prompt_tokens"]) / 1e6

    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), headers={"Content-Type": "application/json"}
    ) as session:
        ready = iter([orjson.dumps(body) for body in asked])
        await asyncio.gather(*(ask(next(ready), 0.0) for _ in range(WARM_UP_CALLS)))
        due = arrivals(RATE, calls / RATE, poisson=False, seed=seed)
        for took_s in await depart(
            time.perf_counter() + 0.05, due, lambda at: ask(next(ready), at)
        ):
            tally.histogram.record_value(microseconds(took_s))
    return tally


def measure(arguments: argparse.Namespace, url: str) -> dict[str, list[float]]:
    """Return the samples of each figure."""
    calls, repeats = arguments.calls, arguments.repeats
    spent: dict[str, list[dict[str, float]]] = {side: [] for side in (*SIDES, "server")}
    tallies: list[Tally] = []
    of_grpc: list[Tally] = []
    of_judge: list[Tally] = []
    of_bare: list[Tally] = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        config = Path(folder, "llm.toml")
        config.write_text(to_toml(configuration(url, arguments.concurrency)))
        flags = (
            *("--llm-config", str(config)),
            *("--llm-cache", "disk", "--llm-cache-dir", str(Path(folder, "replies"))),
        )
        server = stack.enter_context(serving("judged_server", *flags))
        workers = {
            side: Worker(
                stack.enter_context(
                    running("benchmarks.fanout_worker", side, url, str(arguments.concurrency))
                )
            )
            for side in SIDES
        }
        for worker in workers.values():
            worker.run(WARM_UP_CALLS, SEED)
        batch(server, WARM_UP_CALLS, SEED)
        for repeat in range(repeats):
            # New texts in every round and every run: nothing may come from a cache.
            seed = time.time_ns()
            for side, worker in workers.items():
                spent[side].append(worker.run(calls, seed))
            spent["server"].append(batch(server, calls, seed + 1))
            tallies.append(overhead(server, calls, seed + 2))
            of_grpc.append(overhead(server, calls, seed + 3, "exact"))
            of_judge.append(workers["judge"].latencies(calls, seed + 5))
            of_bare.append(uvloop.run(floor(url, calls, seed + 4)))
            told = ", ".join(
                f"{side} {rounds[-1]['wall_s']:.2f} s wall {rounds[-1]['cpu_s']:.2f} s CPU"
                for side, rounds in spent.items()
            )
            print(f"round {repeat + 1}: {told}", flush=True)
    latencies = {"overhead_ms": tallies, "grpc_ms": of_grpc}
    latencies |= {"judge_ms": of_judge, "bare_ms": of_bare}
    return figures(arguments, spent, latencies)


def figures(
    arguments: argparse.Namespace,
    spent: dict[str, list[dict[str, float]]],
    latencies: Mapping[str, Sequence[Tally]],
) -> dict[str, list[float]]:
    """Return the samples of each figure, one a round."""
    wall = {side: [one["wall_s"] for one in rounds] for side, rounds in spent.items()}
    cpu = {side: [one["cpu_s"] for one in rounds] for side, rounds in spent.items()}
    ideal = arguments.calls * arguments.latency / arguments.concurrency
    samples = {
        "wall_over_bare_loop": ratios(wall["judge"], wall["bare"]),
        "cpu_over_bare_loop": ratios(cpu["judge"], cpu["bare"]),
        "calls_per_cpu_s_over_openai_sdk": ratios(cpu["sdk"], cpu["judge"]),
    }
    for name, tallies in latencies.items():
        for percentile in PERCENTILES:
            samples[f"{name}_p{percentile}"] = [each.milliseconds(percentile) for each in tallies]
    for percentile in PERCENTILES:
        whole, grpc, judge, bare = (samples[f"{name}_p{percentile}"] for name in latencies)
        floors = [sum(parts) for parts in zip(grpc, bare, strict=True)]
        samples[f"overhead_over_floor_p{percentile}"] = ratios(whole, floors)
        samples[f"judge_over_bare_p{percentile}"] = ratios(judge, bare)
    samples |= {
        "server_wall_over_bare_loop": ratios(wall["server"], wall["bare"]),
        "server_cpu_over_bare_loop": ratios(cpu["server"], cpu["bare"]),
        "bare_over_ideal": [seconds / ideal for seconds in wall["bare"]],
    }
    for side in SIDES:
        samples[f"cpu_ms_{side}"] = [1e3 * seconds / arguments.calls for seconds in cpu[side]]
    return samples


def to_toml(document: dict[str, object]) -> str:
    """Return tables of lists of flat tables as TOML."""
    lines: list[str] = []
    for name, tables in document.items():
        if not isinstance(tables, list):
            raise TypeError(f"{name} is not a list of tables")
        for table in tables:
            lines += [f"[[{name}]]", *(f"{key} = {json.dumps(table[key])}" for key in table)]
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fanout")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--latency", type=float, default=0.2, help="of the provider, in seconds")
    parser.add_argument("--concurrency", type=int, default=256)
    arguments = parser.parse_args()
    with running("benchmarks.fanout_provider", str(arguments.latency)) as provider:
        port = _pipes(provider)[1].readline().strip()
        samples = measure(arguments, f"http://127.0.0.1:{port}/v1")
    facts = {
        "calls": arguments.calls,
        "latency_s": arguments.latency,
        "concurrency": arguments.concurrency,
        "calls_a_s": RATE,
        "aiohttp": version("aiohttp"),
        "openai": version("openai"),
        "uvloop": version("uvloop"),
    }
    print(closing_line("fanout", samples, facts=facts))


if __name__ == "__main__":
    main()
