"""Judges prose with Evret's SemanticJudge, on request: the peer of `benchmarks.semantic`.

Runs in the environment of sentence-transformers, with Evret's folder on the path and the same
model. A line is a JSON object with the seed and the number of queries; the answer has wall and CPU
seconds of `batch_judge` on all their contexts in one list, and its verdicts.

    python -m benchmarks.peers.evret_semantic EVRET_FOLDER MODEL
"""

from __future__ import annotations

import json
import os
import sys
import time

from tests.conformance.prose import build_groups


def main() -> None:
    """Serve until standard input ends."""
    folder, model = sys.argv[1:]
    sys.path.insert(0, folder)
    from evret.judges.base import JudgmentContext  # noqa: PLC0415 - of that folder
    from evret.judges.semantic import SemanticJudge  # noqa: PLC0415 - of that folder

    judge = SemanticJudge(model)
    judge.batch_judge([JudgmentContext(query="q", expected_text="a text", retrieved_text="b")])
    answer({"judge": judge.name})
    for line in sys.stdin:
        request = json.loads(line)
        contexts = [
            JudgmentContext(query=group.query, expected_text=expected, retrieved_text=retrieved)
            for group in build_groups(request["seed"], request["queries"])
            for retrieved in group.retrieved
            for expected in group.expected
        ]
        wall, cpu = time.perf_counter(), time.process_time()
        verdicts = judge.batch_judge(contexts)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        answer({"wall": wall, "cpu": cpu, "verdicts": [bool(verdict) for verdict in verdicts]})


def answer(content: dict[str, object]) -> None:
    """Write one line and flush it."""
    os.write(1, (json.dumps(content) + "\n").encode())


if __name__ == "__main__":
    main()
