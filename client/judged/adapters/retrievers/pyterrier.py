"""PyTerrier (python-terrier): its transformers for the Evaluator, and its runs as results.

A run is a DataFrame with a row per result: `qid`, `docno`, `rank`, optionally `score` and `text`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import pandas as pd

from judged.evaluation import Results, Retrieved
from judged.evaluation.asking import signature_of


def read_run(run: pd.DataFrame, texts: Mapping[str, str] | None = None) -> Results:
    """Return the results of a run, ordered by `rank` within each query.

    The text of a document is that of its row, else that of `texts` by its `docno`. Raises
    ValueError for a frame without the columns.
    """
    if not {"qid", "docno", "rank"} <= set(run.columns):
        has = ", ".join(map(str, run.columns))
        raise ValueError(f"a run needs the columns qid, docno and rank, and this has {has}")
    known = texts or {}
    by_query: dict[str, list[Retrieved]] = defaultdict(list)
    ranked = run.assign(rank=run["rank"].astype(float))  # a file read as text has "10" below "2"
    for row in ranked.sort_values("rank", kind="stable").to_dict("records"):
        name, score, text = str(row["docno"]), row.get("score"), row.get("text")
        by_query[str(row["qid"])].append(
            Retrieved(
                name,
                None if score is None else float(score),
                text if isinstance(text, str) else known.get(name),
            )
        )
    return Results.of(by_query)


class PyTerrierRetriever:
    """A transformer or pipeline that retrieves, given all queries in one frame of qid and query.

    Texts are found as in `read_run`. It returns as many documents as configured, of which the first
    k count: `pipeline % 10` sets 10.
    """

    def __init__(
        self,
        transformer: Callable[[pd.DataFrame], pd.DataFrame],
        texts: Mapping[str, str] | None = None,
    ) -> None:
        self._transformer, self._texts = transformer, texts
        self.signature = signature_of(transformer)

    def batch_retrieve(self, queries: Sequence[str], k: int) -> list[list[Retrieved]]:
        """Return the documents of each query, best first."""
        names = [f"q{number}" for number in range(1, len(queries) + 1)]
        run = self._transformer(pd.DataFrame({"qid": names, "query": list(queries)}))
        found = read_run(run, self._texts)
        return [list(found.get(name, ()))[:k] for name in names]
