"""Judgements and runs as people hold them. No protobuf, no NumPy.

How they travel is up to `_trec`, how large ones are cut to `_split`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from judged._inputs import WrongType, as_column, need_by_ids, set_fields
from judged._views import View


class ScoredDocuments(NamedTuple):
    """Documents and their scores as two columns, the way that retrievers return them.

    A column may be of any kind that can be walked over, such as an array or a generator. Scores
    rank, whatever the order of the columns; without scores their order is the ranking.
    """

    document_ids: Sequence[str]
    scores: Sequence[float] = ()


RetrievedDocuments = Mapping[str, float] | Sequence[str] | ScoredDocuments
"""What a run has for a query: document id to score, a list of ids, best first, or two columns."""


@dataclass(frozen=True, slots=True, repr=False)
class TrecRankings(View):
    """Judgements and a run.

    `qrels` maps query id to document id to grade. `run` maps query id to document id to score, to
    a list of document ids, best first, or to ScoredDocuments, which is the fastest to send. Ids are
    text or whole numbers, compared as text.
    """

    qrels: Mapping[str, Mapping[str, int]]
    run: Mapping[str, RetrievedDocuments]

    def __post_init__(self) -> None:
        set_fields(self, qrels=need_by_ids(self.qrels, "qrels"), run=kept_run(self.run, "run"))


def kept_run(run: Mapping[str, RetrievedDocuments], field: str) -> Mapping[str, RetrievedDocuments]:
    """Return a run by ids that are text, of which nothing can be read only once."""
    run = need_by_ids(run, field)
    if all(map(_is_kept, run.values())):
        return run
    return {query_id: _kept(ranked, f"{field}[{query_id!r}]") for query_id, ranked in run.items()}


def _is_kept(documents: RetrievedDocuments) -> bool:
    if isinstance(documents, ScoredDocuments):
        return all(hasattr(column, "__len__") for column in documents)
    return hasattr(documents, "__len__") and not isinstance(documents, set | frozenset)


def _kept(documents: RetrievedDocuments, field: str) -> RetrievedDocuments:
    if isinstance(documents, ScoredDocuments):
        return ScoredDocuments(*map(as_column, documents))
    if isinstance(documents, set | frozenset):
        raise WrongType.of_field(field, "is a set, which has no order; give a list, best first")
    kept: RetrievedDocuments = as_column(documents)
    if not hasattr(kept, "__len__"):
        rule = f"must be documents (ids, or ids with scores), not {type(kept).__name__}"
        raise WrongType.of_field(field, rule)
    return kept
