"""One query of an evaluation: what was retrieved for it, and what the judge made of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judged._views import View


@dataclass(frozen=True, slots=True)
class RetrievedResult:
    """One retrieved document and what the judge made of it.

    `rank` counts from 1. `relevant` is whether any expected text is matched, `matches` the indices
    of those that are, `score` the best score of all; where verdicts are missing and none is
    relevant, `relevant` is None, and `status` and `error` say why. A `duplicate` repeats an earlier
    result of its query and was not judged. Matched by document id, there is no score. `probability`
    is that of the best score, where the judge is calibrated; `agreement` the smallest share of
    votes on the larger side, where several voted.
    """

    rank: int
    document_id: str
    text: str | None
    relevant: bool | None = None
    score: float | None = None
    status: str | None = None
    error: str | None = None
    matches: Sequence[int] = ()
    duplicate: bool = False
    retriever_score: float | None = None
    probability: float | None = None
    agreement: float | None = None


@dataclass(frozen=True, slots=True, repr=False)
class QueryResult(View):
    """One query with what should be found and what was, best rank first.

    `failure` says why the retriever found nothing at all: such a query has no part in any metric.
    """

    query_id: str
    query: str
    expected: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    negatives: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    retrieved: Sequence[RetrievedResult] = ()
    failure: str | None = None
