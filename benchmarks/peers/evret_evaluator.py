"""Evaluates prose with Evret's Evaluator, on request: the peer of `benchmarks.evaluator`.

For every line on standard input it evaluates everything and prints the wall seconds.
"""

from __future__ import annotations

import sys
import time

from tests.conformance.prose import build_groups


def main() -> None:
    """Serve rounds until standard input ends."""
    folder, seed = sys.argv[1], int(sys.argv[2])
    sys.path.insert(0, folder)
    import evret  # noqa: PLC0415 - of that folder
    from evret.evaluation.dataset import QueryExample  # noqa: PLC0415 - of that folder
    from evret.retrievers.base import BaseRetriever, RetrievalResult  # noqa: PLC0415 - as above

    groups = build_groups(seed)
    queries = [
        QueryExample(f"q{i}", f"{group.query} {i}", [], list(group.expected))
        for i, group in enumerate(groups)
    ]
    found = {
        query.query_text.split()[-1]: [
            RetrievalResult(doc_id=f"retrieved_{rank}", score=-float(rank), metadata={"text": text})
            for rank, text in enumerate(group.retrieved)
        ]
        for query, group in zip(queries, groups, strict=True)
    }

    class Shelf(BaseRetriever):  # type: ignore[misc]  # Any where Evret is not installed
        def retrieve(self, query: str, k: int) -> list[RetrievalResult]:
            return found[query.rsplit(maxsplit=1)[-1]][:k]

    metrics = [
        kind(k=10)
        for kind in (
            evret.HitRate,
            evret.Recall,
            evret.Precision,
            evret.MRR,
            evret.NDCG,
            evret.AveragePrecision,
        )
    ]
    evaluator = evret.Evaluator(retriever=Shelf(), metrics=metrics, judge=evret.TokenOverlapJudge())
    dataset = evret.EvaluationDataset(queries)
    print("ready", flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        evaluator.evaluate(dataset)
        print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    main()
