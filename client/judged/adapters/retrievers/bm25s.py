"""bm25s: an index for the Evaluator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import bm25s

from judged.errors import InvalidArgument
from judged.evaluation import Retrieved


class Bm25sRetriever:
    """A bm25s index over documents in the order of `texts`; searches for all queries in one call.

    `tokenize` turns queries into the tokens of the index, as for its documents; the default is
    `bm25s.tokenize` without stemming. `document_ids` default to the documents' positions.
    """

    def __init__(
        self,
        index: bm25s.BM25,
        texts: Sequence[str],
        document_ids: Sequence[str] | None = None,
        tokenize: Callable[[list[str]], Any] | None = None,
    ) -> None:
        indexed = index.scores["num_docs"] if hasattr(index, "scores") else 0
        if len(texts) != indexed:
            rule = f"{len(texts)} texts for an index of {indexed} documents; give all, in its order"
            raise InvalidArgument.of_field("texts", rule)
        if document_ids is not None and len(document_ids) != len(texts):
            rule = f"{len(document_ids)} ids for {len(texts)} texts; give one each or none"
            raise InvalidArgument.of_field("document_ids", rule)
        self._index, self._texts, self._ids = index, texts, document_ids
        self._tokenize = tokenize or (lambda queries: bm25s.tokenize(queries, show_progress=False))
        self.signature = "bm25s"

    def batch_retrieve(self, queries: Sequence[str], k: int) -> list[list[Retrieved]]:
        """Return the documents of each query, best first."""
        tokens = self._tokenize(list(queries))
        most = min(k, len(self._texts))
        places, scores = self._index.retrieve(
            tokens, corpus=range(len(self._texts)), k=most, show_progress=False
        )
        return [
            [
                Retrieved(
                    str(place) if self._ids is None else self._ids[int(place)],
                    float(score),
                    self._texts[int(place)],
                )
                for place, score in zip(row, row_scores, strict=True)
            ]
            for row, row_scores in zip(places, scores, strict=True)
        ]
