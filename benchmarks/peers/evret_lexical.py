"""Judges prose with one version of Evret, on request: the peer of `benchmarks.lexical`.

Runs in its own process, because two versions can't share one. For every line on standard input it
judges all contexts and prints the CPU seconds, without those of building the contexts.
"""

from __future__ import annotations

import sys
import time

from tests.conformance.prose import build_groups


def main() -> None:
    """Serve rounds until standard input ends."""
    folder, seed = sys.argv[1], int(sys.argv[2])
    sys.path.insert(0, folder)
    from evret.judges.base import JudgmentContext  # noqa: PLC0415 - of that folder
    from evret.judges.token_overlap import TokenOverlapJudge  # noqa: PLC0415 - of that folder

    contexts = [
        JudgmentContext(query=group.query, expected_text=expected, retrieved_text=retrieved)
        for group in build_groups(seed)
        for retrieved in group.retrieved
        for expected in group.expected
    ]
    judge = TokenOverlapJudge()
    print("ready", flush=True)
    for _ in sys.stdin:
        started = time.process_time()
        judge.batch_judge(contexts)
        print(time.process_time() - started, flush=True)


if __name__ == "__main__":
    main()
