"""Measures how much a large batch slows small requests down on the same server.

Small semantic requests, four contexts of new texts each, arrive at random (Poisson) at a modest
rate; latency runs from the instant each was due. Every round runs them alone, and then beside
consecutive cold batches of 30,000 contexts, which another process sends through the Python client.
The vector cache is off, and small requests wait as long as they must: at 8 a second a burst can be
more than .4 s of work, which by default is refused, and would be missing from the latencies. Other
settings are the defaults.

interactive_p99_ratio   p99 beside the batch over p99 alone, of the same arrivals
interactive_p50_ratio   the same for the median
interactive_p99_ms_alone, interactive_p99_ms_beside

    python -m benchmarks.mixed_load [--rps 8] [--duration 25] [--rounds 5] [--backend NAME=FLAGS]

With 8 a second for 25 s a round's p99 is about its second slowest request; p99 of all rounds
together is printed too. Figures of backends other than the first end in their name.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from contextlib import ExitStack

from judged import Client, QueryGroup
from judged._load.open_loop import Tally, drive
from judged._load.request_mix import arrivals, parse_mix, requests

from benchmarks.harness import ROOT, closing_line, ratios
from benchmarks.peers.backends import RunningBackend, add_backend_option, backends, running
from benchmarks.peers.environments import NotRun
from tests.conformance.prose import build_groups, words

SEED = 31
INTERACTIVE = "semantic:1x4@40"
BATCH_QUERIES = 1_000
SETTLE_S = 60.0
FLAGS = "--vector-cache", "off", "--max-queue-delay-s", "60"


def batches(target: str, seed: int) -> None:
    """Send one batch after another until the process is stopped; print when the first begins."""
    with Client(target) as client:
        while True:
            prose = build_groups(seed, BATCH_QUERIES)
            groups = [QueryGroup(g.query, g.expected, g.retrieved) for g in prose]
            print("begins", flush=True)
            verdicts = client.judge(groups, "semantic", timeout=3000)
            # A batch whose chunks were refused would be no load.
            print(f"ends with {verdicts.n_ok} of {len(verdicts)}", flush=True)
            seed += 1_000


def interactive(target: str, rps: float, seconds: float, seed: int) -> Tally:
    """Return the latencies of small requests."""
    made = requests(parse_mix(INTERACTIVE), time.time_ns(), words=words())  # new in every run
    due = list(arrivals(rps, seconds, poisson=True, seed=seed))
    outcome = asyncio.run(drive(target, due, made, 60.0))
    total = outcome.total
    if total.answered != len(due) or total.missing_verdicts:
        raise SystemExit(f"{len(due) - total.answered} requests failed: {outcome.messages}")
    return total


def beside(server: RunningBackend, rps: float, seconds: float, seed: int) -> Tally:
    """Return the latencies of small requests beside the batches."""
    address = server.server.address
    command = [sys.executable, "-m", "benchmarks.mixed_load", "--batches", address]
    process = subprocess.Popen(
        [*command, "--seed", str(seed)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        if process.stdout is None or not process.stdout.readline():
            raise SystemExit("the batch process ended")
        wait_until_busy(server)
        tally = interactive(address, rps, seconds, seed)
        if process.poll() is not None:
            raise SystemExit("the batch process ended while it should have been a load")
        return tally
    finally:
        process.kill()
        process.wait()


def wait_until_busy(server: RunningBackend) -> None:
    """Wait until the server has used half a CPU second."""
    started = server.server.cpu_seconds()
    ends = time.monotonic() + SETTLE_S
    while server.server.cpu_seconds() < started + 0.5 and time.monotonic() < ends:
        time.sleep(0.02)


def wait_until_idle(server: RunningBackend) -> None:
    """Wait until the server has finished the rest of a cancelled batch."""
    ends = time.monotonic() + SETTLE_S
    while time.monotonic() < ends:
        before = server.server.cpu_seconds()
        time.sleep(0.3)
        if server.server.cpu_seconds() - before < 0.03:
            return
    raise SystemExit("the server still works on a cancelled batch")


def measure(
    server: RunningBackend, rps: float, seconds: float, rounds: int
) -> dict[str, list[float]]:
    """Return the samples of each figure."""
    alone, together = [], []
    for round_number in range(rounds):
        seed = SEED + round_number
        wait_until_idle(server)
        alone.append(interactive(server.server.address, rps, seconds, seed))
        together.append(beside(server, rps, seconds, seed))
    for name, tallies in (("alone", alone), ("beside", together)):
        pooled = Tally([each for tally in tallies for each in tally.latencies])
        summary = ", ".join(f"p{p:g} {pooled.milliseconds(p):.1f}" for p in (50, 90, 99, 100))
        print(f"{server.name}, {name}: {pooled.answered} requests, ms {summary}", flush=True)

    def column(tallies: list[Tally], percentile: float) -> list[float]:
        return [tally.milliseconds(percentile) for tally in tallies]

    return {
        "interactive_p99_ratio": ratios(column(together, 99), column(alone, 99)),
        "interactive_p50_ratio": ratios(column(together, 50), column(alone, 50)),
        "interactive_p99_ms_alone": column(alone, 99),
        "interactive_p99_ms_beside": column(together, 99),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mixed_load")
    parser.add_argument("--rps", type=float, default=8.0)
    parser.add_argument("--duration", type=float, default=25.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", metavar="TARGET", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=SEED, help=argparse.SUPPRESS)
    add_backend_option(parser)
    arguments = parser.parse_args()
    if arguments.batches:
        batches(arguments.batches, arguments.seed)
        return
    samples: dict[str, list[float]] = {}
    not_run: dict[str, str] = {}
    for i, backend in enumerate(arguments.backend or backends()):
        with ExitStack() as stack:
            try:
                server = stack.enter_context(running(backend, *FLAGS))
            except NotRun as problem:
                print(f"{backend.name}: not run ({problem})")
                not_run[f"interactive_p99_ratio_{backend.name}"] = str(problem)
                continue
            found = measure(server, arguments.rps, arguments.duration, arguments.rounds)
            samples |= {f"{name}_{backend.name}" if i else name: v for name, v in found.items()}
    facts = {"rps": arguments.rps, "duration_s": arguments.duration, "interactive": INTERACTIVE}
    print(closing_line("mixed_load", samples, not_run, facts))


if __name__ == "__main__":
    main()
