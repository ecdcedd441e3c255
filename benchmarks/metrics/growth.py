"""Measures how time and memory of the ranking metrics grow: part of `benchmarks.metrics`.

Evaluates the same 100,000 queries of 20 documents once whole, once in parts of 10,000 and once in
parts of 1,000, interleaved. So every evaluation reads ids and numbers from memory, as for a
request; a part measured repeatedly would be in the CPU's caches, and the growth would be that of
cache misses. Prints one JSON line: for each round the exponent of CPU seconds in the number of
queries, by least squares, and the peak memory on top of the input, as a multiple of the bytes of
the input's ids.
"""

from __future__ import annotations

import gc
import json
import math
import statistics
import sys
import time
import tracemalloc
from collections.abc import Sequence

from judged_server.metrics.input.rankings import Qrels, Topics, rank_run
from judged_server.metrics.measures import Measure, parse_metrics

from benchmarks.metrics.trec_runs import Runs, build_runs

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 5


def measure(runs: Runs, measures: Sequence[Measure]) -> None:
    """Rank and measure once."""
    qrels = Qrels.of(Topics.of_rows(runs.qrels, "qrels", "grades"))
    rankings = rank_run(qrels, Topics.of_rows(runs.run, "run", "scores")).rankings
    for each in measures:
        each.values(rankings)


def cpu_seconds(runs: Runs, size: int, measures: Sequence[Measure]) -> float:
    """Return the mean CPU seconds of evaluating a part of `size` queries, over all parts.

    The garbage collector is off, as in timeit: its runs depend on all live objects.
    """
    n = len(runs.run)
    gc.collect()
    gc.disable()
    started = time.process_time()
    for begin in range(0, n, size):
        part = slice(begin, begin + size)
        measure(Runs(runs.qrels[part], runs.run[part]), measures)
    spent = time.process_time() - started
    gc.enable()
    return spent * size / n


def exponent(seconds: Sequence[float]) -> float:
    """Return the slope of log seconds over log queries."""
    x, y = [math.log(size) for size in SIZES], [math.log(spent) for spent in seconds]
    return statistics.linear_regression(x, y).slope


def memory_over_ids(runs: Runs, measures: Sequence[Measure]) -> float:
    """Return the peak allocation while measuring, over the bytes of the ids."""
    sides = (runs.qrels, runs.run)
    ids = sum(sys.getsizeof(name) for side in sides for _, names, _ in side for name in names)
    tracemalloc.start()
    measure(runs, measures)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / ids


def main() -> None:
    """Measure and print."""
    measures = parse_metrics(sys.argv[1:])
    runs = build_runs(max(SIZES), depth=20, judged=4)
    rounds = [[cpu_seconds(runs, size, measures) for size in SIZES] for _ in range(ROUNDS + 1)]
    memory = memory_over_ids(Runs(runs.qrels[: SIZES[1]], runs.run[: SIZES[1]]), measures)
    print(json.dumps({"exponents": [exponent(each) for each in rounds[1:]], "memory": memory}))


if __name__ == "__main__":
    main()
