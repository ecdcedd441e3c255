"""One side of `benchmarks.versions`: a client of one checkout, which calls its server.

The interpreter of that checkout runs this file, so it uses only what both clients have: `judge` and
`compute_metrics`. Each line of input is {"work": NAME, "input": ...}; each line of output has the
wall seconds and the client's CPU seconds of the calls. Requests are built before the clock starts.

    wire       judge, `token_overlap`, a call a group, one after the other
    lexical    judge, `token_overlap`, all in one call
    semantic   judge, `semantic`, all in one call
    metrics    compute_metrics, qrels and a run in columns
    fanout     judge, `llm`, all in one call

    .venv/bin/python benchmarks/versions/side.py TARGET
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from judged import Client, Judge, QueryGroup, ScoredDocuments, TrecRankings

METRICS = ["ndcg@10", "ap@100", "mrr", "precision@5", "recall@100"]
TIMEOUT_S = 120.0
KINDS = {"wire": "token_overlap", "lexical": "token_overlap", "semantic": "semantic"}


def calls(client: Client, work: str, given: Any) -> Callable[[], None]:  # noqa: ANN401 - JSON
    """Return a function that makes the calls. It raises SystemExit if verdicts are missing."""
    if work == "metrics":
        qrels = {topic: dict(zip(ids, grades, strict=True)) for topic, ids, grades in given[0]}
        run = {topic: ScoredDocuments(ids, scores) for topic, ids, scores in given[1]}
        relevance = TrecRankings(qrels, run)
        return lambda: _table(client, relevance)
    groups = [QueryGroup(*group) for group in given]
    judge = Judge(KINDS.get(work, "llm"))
    if work == "wire":
        return lambda: _judged(client, judge, *([group] for group in groups))
    return lambda: _judged(client, judge, groups)


def _table(client: Client, relevance: TrecRankings) -> None:
    client.compute_metrics(METRICS, relevance, timeout=TIMEOUT_S)


def _judged(client: Client, judge: Judge, *lists: list[QueryGroup]) -> None:
    for groups in lists:
        verdicts = client.judge(groups, judge, timeout=TIMEOUT_S)
        if verdicts.errors:
            raise SystemExit(f"verdicts are missing: {next(iter(verdicts.errors.values()))}")


def main() -> None:
    """Serve requests from standard input until it ends."""
    with Client(sys.argv[1]) as client:
        client.server_info()
        print("ready", flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            run = calls(client, order["work"], order["input"])
            cpu, wall = time.process_time(), time.perf_counter()
            run()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            print(json.dumps({"wall_s": wall, "cpu_s": cpu}), flush=True)


if __name__ == "__main__":
    main()
