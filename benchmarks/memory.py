"""Checks the server's memory limit and growth with many texts of random lengths.

One server with default settings, and its vector store in a new folder, gets texts that are all
different: calls of random size, lengths log-uniform from 3 to 300 tokens, so that every shape of
batch occurs and some texts are truncated. Its resident memory is read after each call.

memory_over_450_mb       resident memory after the last call, over the 450 MB that are allowed
peak_over_450_mb         peak resident memory, over the same
last_half_growth         mean memory of the last tenth of the texts over that of the tenth that
                         begins in the middle: 1 is flat

100,000 texts are about 6.3 million tokens: some 18 minutes on two quiet cores. With few texts the
cache of vectors in memory (64 MiB, 37,000 texts) still fills, which is growth.

    python -m benchmarks.memory [--texts 100000] [--backend NAME=FLAGS ...]
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from judged import QueryGroup

from benchmarks.harness import closing_line
from benchmarks.peers.backends import (
    REFERENCE,
    Backend,
    RunningBackend,
    add_backend_option,
    running,
)
from benchmarks.peers.environments import NotRun
from tests.conformance import prose

SEED = 41
TEXTS = 100_000
LEAST_TOKENS, MOST_TOKENS = 3, 300
MOST_IN_A_CALL = 2_000
ALLOWED_MB = 450
_TOKENS_A_WORD = 1.35


def texts(count: int, seed: int) -> Iterator[str]:
    """Yield texts of prose; a number at the start makes each distinct."""
    rng = random.Random(seed)
    stream = list(prose.words())
    low, high = math.log(LEAST_TOKENS), math.log(MOST_TOKENS)
    for number in range(count):
        words = max(1, round((math.exp(rng.uniform(low, high)) - 3) / _TOKENS_A_WORD))
        start = rng.randrange(len(stream) - words)
        yield " ".join([str(number), *stream[start : start + words]])


def calls(count: int, seed: int) -> Iterator[list[str]]:
    """Yield the texts of each call, 2 to MOST_IN_A_CALL of them."""
    rng = random.Random(seed)
    source = texts(count, seed)
    left = count
    while left:
        size = min(left, max(2, round(math.exp(rng.uniform(0, math.log(MOST_IN_A_CALL))))))
        size = left if left - size < 2 else size
        yield [next(source) for _ in range(size)]
        left -= size


def memory_mb(pid: int, field: str) -> float:
    """Return VmRSS or VmHWM of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit(f"/proc/{pid}/status has no {field}")


def growth(samples: Sequence[tuple[int, float]]) -> float:
    """Return mean memory of the last tenth over that of the tenth from the middle on.

    A sample is (texts so far, memory). Calls differ in size, so the mean is over texts.
    """

    def mean(low: float, high: float) -> float:
        total = weight = before = 0.0
        for done, megabytes in samples:
            share = max(0.0, min(done, high) - max(before, low))
            total, weight, before = total + share * megabytes, weight + share, done
        return total / weight

    last = samples[-1][0]
    return mean(0.9 * last, last) / mean(0.5 * last, 0.6 * last)


def measure(server: RunningBackend, count: int) -> dict[str, list[float]]:
    """Return the samples of each figure."""
    pid = server.server.pid
    samples: list[tuple[int, float]] = []
    done, printed, started = 0, 0, time.perf_counter()
    for first, *others in calls(count, SEED):
        verdicts = server.client.judge([QueryGroup("q", [first], others)], "semantic", timeout=3000)
        if verdicts.n_ok != len(others):
            raise SystemExit(f"{len(others) - verdicts.n_ok} verdicts are missing")
        done += 1 + len(others)
        samples.append((done, memory_mb(pid, "VmRSS")))
        if done * 20 // count > printed:
            printed = done * 20 // count
            minutes = (time.perf_counter() - started) / 60
            print(f"{server.name}: {done} texts, {samples[-1][1]:.0f} MB, {minutes:.1f} min")
    last = [megabytes for at, megabytes in samples if at > 0.9 * done]
    print(f"{server.name}: {min(last):.0f} to {max(last):.0f} MB over the last tenth")
    return {
        "memory_over_450_mb": [samples[-1][1] / ALLOWED_MB],
        "peak_over_450_mb": [memory_mb(pid, "VmHWM") / ALLOWED_MB],
        "last_half_growth": [growth(samples)],
        "texts_a_s": [done / (time.perf_counter() - started)],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory")
    parser.add_argument("--texts", type=int, default=TEXTS)
    add_backend_option(parser)
    arguments = parser.parse_args()
    if arguments.texts < 100:
        parser.error("--texts is at least 100")
    samples: dict[str, list[float]] = {}
    not_run: dict[str, str] = {}
    for i, backend in enumerate(arguments.backend or [Backend(REFERENCE)]):
        with tempfile.TemporaryDirectory() as folder:
            flags = ("--vector-cache", "disk", "--vector-cache-dir", folder)
            try:
                with running(backend, *flags) as server:
                    found = measure(server, arguments.texts)
            except NotRun as problem:
                print(f"{backend.name}: not run ({problem})")
                not_run[f"memory_over_450_mb_{backend.name}"] = str(problem)
                continue
            samples |= {f"{name}_{backend.name}" if i else name: v for name, v in found.items()}
    facts = {"texts": arguments.texts, "tokens": [LEAST_TOKENS, MOST_TOKENS]}
    print(closing_line("memory", samples, not_run, facts))


if __name__ == "__main__":
    main()
