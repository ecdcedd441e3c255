"""Evaluates a run with ranx, on request: a peer of `benchmarks.metrics`.

Runs in its own environment, with ranx and its compiler. For every line on standard input it
evaluates once and prints the CPU seconds of all its threads, without building its objects and
compiling.
"""

from __future__ import annotations

import sys
import time

from benchmarks.metrics.trec_runs import build_runs, mappings

METRICS = [
    "ndcg@10",
    "ndcg@100",
    "map@10",
    "map@100",
    "mrr",
    "precision@5",
    "precision@10",
    "recall@10",
    "recall@100",
    "r-precision",
]


def main() -> None:
    """Serve rounds until standard input ends."""
    from ranx import Qrels, Run, evaluate  # noqa: PLC0415 - of the worker's environment

    runs = build_runs(int(sys.argv[1]))
    qrels, run = Qrels(mappings(runs.qrels)), Run(mappings(runs.run))
    evaluate(qrels, run, METRICS)
    print("ready", flush=True)
    for _ in sys.stdin:
        started = time.process_time()
        means = evaluate(qrels, run, METRICS)
        spent = time.process_time() - started
        print(spent, *(float(means[name]) for name in METRICS), flush=True)


if __name__ == "__main__":
    main()
