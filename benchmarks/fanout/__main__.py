"""Measures the overhead of the judge `llm` against a bare loop and an SDK.

A scripted provider, in its own process, answers each call after 200 ms. The first rounds send
contexts one by one, 200 a second whether or not earlier ones are answered (`latency`). Then, in
every round, a bare aiohttp loop, the `openai` package's AsyncOpenAI with a semaphore, and the judge
make the same 2,000 calls, 256 at once, one side after the other, each in its own process
(`worker`); and the same contexts go through a server in one BatchJudge.

wall_over_bare_loop             wall seconds of the judge over those of the bare loop
cpu_over_bare_loop              the same in CPU seconds: prompts, limits, retries, cache, parsing
calls_per_cpu_s_over_openai_sdk calls a CPU second of the judge over those of the SDK
overhead_ms_p50, _p95, _p99     time the server adds to a BatchJudge of one context, from its access
                                log: from the read message to the reply, minus the provider's time
                                from the last byte of the request to its answer. Model gateways call
                                this their overhead, but here it includes HTTP
call_ms_p50, _p95, _p99         the same calls as the caller sees them: from when a context was due
                                to its verdict, with gRPC on both sides and other processes on the
                                cores
stream_ms_p50, _p95, _p99       the same as chunks of one StreamJudge
judge_ms_p50, _p95, _p99        the same, given directly to the judge in its process, without gRPC
grpc_ms_p50, _p95, _p99         one BatchJudge per context to the judge `exact`, which asks no
                                model: the share of gRPC and of this machine
bare_ms_p50, _p95, _p99         the same questions asked by a bare aiohttp loop: the share of HTTP
                                and of this machine
call_over_floor_p50, ...        call_ms over grpc_ms + bare_ms, its two parts, in the same round
judge_over_bare_p50, ...        judge_ms over bare_ms, in the same round
server_wall_over_bare_loop      wall seconds of the large BatchJudge over those of the bare loop
server_cpu_over_bare_loop       the server's CPU seconds during it, over those of the bare loop
paid_wall_over_free, paid_cpu_over_free    the large BatchJudge to a model with prices, which writes
                                each reply to disk before answering, over the same to a model
                                without prices, which writes them after answering
paid_call_over_free_p50, ...    call_ms of the model with prices over call_ms, round by round
bare_over_ideal                 wall seconds of the bare loop over calls * latency / concurrency
cpu_ms_bare, cpu_ms_judge, cpu_ms_sdk      CPU of a call

    python -m benchmarks.fanout [--calls 2000] [--repeats 5] [--latency 0.2] [--concurrency 256]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from judged._load.open_loop import Tally

from benchmarks.fanout import latency
from benchmarks.fanout.latency import MOST_IN_FLIGHT, RATE, WARM_UP_CALLS
from benchmarks.fanout.processes import Worker, batch, provider_url, running, to_toml
from benchmarks.fanout.worker import PAID, configuration
from benchmarks.harness import Server, closing_line, ratios, serving

SIDES = ("bare", "judge", "sdk")
SEED = 53
PERCENTILES = (50, 95, 99)
LATENCIES = (
    "overhead_ms",
    "call_ms",
    "paid_call_ms",
    "stream_ms",
    "judge_ms",
    "bare_ms",
    "grpc_ms",
)


def measure(arguments: argparse.Namespace, url: str) -> dict[str, list[float]]:
    """Return the samples of each figure."""
    calls, repeats = arguments.calls, arguments.repeats
    spent: dict[str, list[dict[str, float]]] = {side: [] for side in (*SIDES, "server", "paid")}
    tallies: dict[str, list[Tally]] = {name: [] for name in LATENCIES}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        config = Path(folder, "llm.toml")
        config.write_text(to_toml(configuration(url, arguments.concurrency)))
        flags = (
            "--llm-config",
            str(config),
            "--llm-cache",
            "disk",
            "--llm-cache-dir",
            str(Path(folder, "replies")),
            "--max-chunks-in-flight",
            str(MOST_IN_FLIGHT),
        )
        server = stack.enter_context(serving("judged_server", *flags))
        workers = {
            side: Worker(
                stack.enter_context(
                    running("benchmarks.fanout.worker", side, url, str(arguments.concurrency))
                )
            )
            for side in SIDES
        }
        for worker in workers.values():
            worker.run(WARM_UP_CALLS, SEED)
        batch(server, WARM_UP_CALLS, SEED)
        batch(server, WARM_UP_CALLS, SEED, PAID)
        # New texts in every round and run, so that nothing comes from a cache. Latencies come
        # first, so that leftover work of the busy rounds does not disturb them.
        for repeat in range(repeats):
            for name, tally in latencies(server, workers["judge"], url, calls, time.time_ns()):
                tallies[name].append(tally)
            p50s = ", ".join(
                f"{name} {tallies[name][-1].milliseconds(50):.2f}" for name in LATENCIES
            )
            print(f"round {repeat + 1}, p50: {p50s}", flush=True)
        for repeat in range(repeats):
            seed = time.time_ns()
            for side, worker in workers.items():
                spent[side].append(worker.run(calls, seed))
            spent["server"].append(batch(server, calls, seed + 1))
            spent["paid"].append(batch(server, calls, seed + 2, PAID))
            summary = ", ".join(
                f"{side} {rounds[-1]['wall_s']:.2f} s wall {rounds[-1]['cpu_s']:.2f} s CPU"
                for side, rounds in spent.items()
            )
            print(f"round {repeat + 1}: {summary}", flush=True)
    return figures(arguments, spent, tallies)


def latencies(
    server: Server, judge: Worker, url: str, calls: int, seed: int
) -> Iterator[tuple[str, Tally]]:
    """Yield the latencies of small calls, by the names of LATENCIES; each uses new texts."""
    yield "judge_ms", judge.latencies(calls, seed)
    log = latency.AccessLog(server.log)
    yield "call_ms", latency.called(server.address, calls, seed + 1)
    yield "overhead_ms", log.overheads(calls)
    yield "paid_call_ms", latency.called(server.address, calls, seed + 5, model=PAID)
    yield "stream_ms", latency.streamed(server.address, calls, seed + 2)
    yield "bare_ms", latency.bare(url, calls, seed + 3)
    yield "grpc_ms", latency.called(server.address, calls, seed + 4, "exact")


def figures(
    arguments: argparse.Namespace,
    spent: dict[str, list[dict[str, float]]],
    tallies: Mapping[str, Sequence[Tally]],
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
    for percentile in PERCENTILES:
        taken = {
            name: [tally.milliseconds(percentile) for tally in tallies[name]] for name in LATENCIES
        }
        samples |= {f"{name}_p{percentile}": values for name, values in taken.items()}
        floors = [sum(parts) for parts in zip(taken["grpc_ms"], taken["bare_ms"], strict=True)]
        samples[f"judge_over_bare_p{percentile}"] = ratios(taken["judge_ms"], taken["bare_ms"])
        samples[f"call_over_floor_p{percentile}"] = ratios(taken["call_ms"], floors)
        samples[f"paid_call_over_free_p{percentile}"] = ratios(
            taken["paid_call_ms"], taken["call_ms"]
        )
    samples |= {
        "server_wall_over_bare_loop": ratios(wall["server"], wall["bare"]),
        "server_cpu_over_bare_loop": ratios(cpu["server"], cpu["bare"]),
        "paid_wall_over_free": ratios(wall["paid"], wall["server"]),
        "paid_cpu_over_free": ratios(cpu["paid"], cpu["server"]),
        "bare_over_ideal": [seconds / ideal for seconds in wall["bare"]],
    }
    for side in SIDES:
        samples[f"cpu_ms_{side}"] = [1e3 * seconds / arguments.calls for seconds in cpu[side]]
    return samples


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fanout")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--latency", type=float, default=0.2, help="of the provider, in seconds")
    parser.add_argument("--concurrency", type=int, default=256)
    arguments = parser.parse_args()
    with running("benchmarks.fanout.provider", str(arguments.latency)) as provider:
        samples = measure(arguments, provider_url(provider))
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
