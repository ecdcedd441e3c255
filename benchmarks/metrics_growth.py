"""How time and memory of the ranking metrics grow: part of `benchmarks.metrics`.

A process for each size, so that neither its peers' memory nor their caches count. Prints one JSON
line: the exponents of the CPU seconds in the number of queries, by least squares over 1,000,
10,000 and 100,000 queries of 20 documents, each the best of several evaluations, and the largest
memory taken on top of the input, as a multiple of the bytes that the ids of the input take.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Sequence

from judged_server.metrics import Topic, parse_metrics
from judged_server.metrics.names import Measure
from judged_server.metrics.trec import rank_run

from benchmarks.harness import ROOT
from benchmarks.trec_runs import Runs, build_runs

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 3


def measure(runs: Runs, measures: Sequence[Measure]) -> None:
    """Rank and measure once."""
    qrels = [Topic(*columns) for columns in runs.qrels]
    run = [Topic(*columns) for columns in runs.run]
    rankings = rank_run(qrels, run).rankings
    for each in measures:
        each.values(rankings)


def cpu_seconds(runs: Runs, measures: Sequence[Measure]) -> float:
    """Return the least CPU seconds of one evaluation, over as many as make half a second."""
    spent = []
    for _ in range(max(3, 50_000 // len(runs.run))):
        started = time.process_time()
        measure(runs, measures)
        spent.append(time.process_time() - started)
    return min(spent)


def alone(size: int, names: Sequence[str]) -> float:
    """Return the CPU seconds of one size, taken in a new process."""
    command = [sys.executable, "-m", "benchmarks.metrics_growth", f"--size={size}", *names]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    return float(done.stdout)


def exponent(seconds: Sequence[float]) -> float:
    """Return the slope of log seconds over log queries."""
    x, y = [math.log(size) for size in SIZES], [math.log(spent) for spent in seconds]
    return statistics.linear_regression(x, y).slope


def memory_over_ids(runs: Runs, measures: Sequence[Measure]) -> float:
    """Return the peak of what is allocated while measuring / the bytes of the ids."""
    sides = (runs.qrels, runs.run)
    ids = sum(sys.getsizeof(name) for side in sides for _, names, _ in side for name in names)
    tracemalloc.start()
    measure(runs, measures)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / ids


def main() -> None:
    """Measure and print."""
    names = sys.argv[1:]
    if names[0].startswith("--size="):
        runs = build_runs(int(names[0].partition("=")[2]), depth=20, judged=4)
        print(cpu_seconds(runs, parse_metrics(names[1:])))
        return
    rounds = [[alone(size, names) for size in SIZES] for _ in range(ROUNDS)]
    memory = memory_over_ids(build_runs(SIZES[1], depth=20, judged=4), parse_metrics(names))
    print(json.dumps({"exponents": [exponent(each) for each in rounds], "memory": memory}))


if __name__ == "__main__":
    main()
