"""One query of an evaluation: what was retrieved for it, and what the judge made of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judged._batching.chunks import distinct_ranks
from judged._views import View
from judged.evaluation.datasets.query import Query
from judged.evaluation.datasets.results import Retrieved
from judged.values import QueryGroup, Span, Status, Verdicts
from judged.values.verdicts import vote_agreement

_OK = int(Status.OK)


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
    matches: tuple[int, ...] = ()
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
    failure: str | None = None
    retrieved: Sequence[RetrievedResult] = ()

    @classmethod
    def of(
        cls,
        query: Query,
        group: QueryGroup | None,
        place: int,
        ranked: Sequence[Retrieved],
        verdicts: Verdicts | None,
        failure: str | None = None,
    ) -> QueryResult:
        """Return the result of a query, whose group is the one at a place of those judged.

        `verdicts` are those of all groups without their repeated results. There is no group where
        the retriever failed.
        """
        expected: Sequence[str] = query.expected_answers
        if group is not None and group.spans is not None:
            expected = [_span_text(span) for span in group.spans.expected]
        return cls(
            query.query_id,
            query.text,
            expected,
            query.relevant_document_ids,
            query.negative_answers,
            query.metadata,
            failure,
            [] if group is None else _retrieved(group, place, ranked, verdicts),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the entry of the query in the JSON document of a result."""
        written = {name: getattr(self, name) for name in QueryResult.__slots__}
        for name in ("expected", "relevant_document_ids", "negatives"):
            written[name] = list(written[name])
        written["metadata"] = dict(self.metadata)
        written["retrieved"] = [
            {name: getattr(result, name) for name in RetrievedResult.__slots__}
            | {"matches": list(result.matches)}
            for result in self.retrieved
        ]
        return written


def _retrieved(
    group: QueryGroup, place: int, ranked: Sequence[Retrieved], verdicts: Verdicts | None
) -> list[RetrievedResult]:
    kept = {rank: position for position, rank in enumerate(distinct_ranks(group))}
    wanted = {name: i for i, name in enumerate(dict.fromkeys(group.relevant_document_ids))}
    width = group.n_expected or 1
    start, end = (0, 0) if verdicts is None else verdicts.offsets[place : place + 2]
    whole = not group.by_id and end - start == len(kept) * width
    found = []
    for rank in range(group.n_retrieved):
        name = group.document_ids[rank] if group.document_ids else f"retrieved_{rank}"
        said: dict[str, Any] = {}
        if rank not in kept:
            said = {"duplicate": True}
        elif group.by_id:
            matches = (wanted[name],) if name in wanted else ()
            said = {"relevant": bool(matches), "status": "OK", "matches": matches}
        elif verdicts is not None and whole:
            first = start + kept[rank] * width
            said = _said(verdicts, range(first, first + width))
        if rank < len(ranked):
            said["retriever_score"] = ranked[rank].score
        found.append(RetrievedResult(rank + 1, name, _text(group, rank), **said))
    return found


def _said(verdicts: Verdicts, cells: range) -> dict[str, Any]:
    """Return what the verdicts on a result say together: one for each expected text."""
    ok = [cell for cell in cells if verdicts.status[cell] == _OK]
    matches = tuple(cell - cells.start for cell in ok if verdicts.relevant[cell])
    said: dict[str, Any] = {"relevant": bool(matches), "status": "OK", "matches": matches}
    if ok:
        best = max(ok, key=verdicts.score.__getitem__)
        said["score"] = verdicts.score[best]
        if verdicts.probability:
            said["probability"] = verdicts.probability[best]
    if verdicts.agreement:
        votes = [vote_agreement(verdicts[cell], verdicts.judge) for cell in ok]
        said["agreement"] = min((share for share in votes if share is not None), default=None)
    if len(ok) < len(cells) and not matches:
        missing = next(cell for cell in cells if verdicts.status[cell] != _OK)
        said |= {"relevant": None, "status": Status(verdicts.status[missing]).name}
        if (error := verdicts.errors.get(missing)) is not None:
            said["error"] = f"{error.reason}: {error.message}"
    return said


def _text(group: QueryGroup, rank: int) -> str | None:
    if group.spans is not None:
        return _span_text(group.spans.retrieved[rank])
    text = group.retrieved[rank] if group.retrieved else ""
    return text or (None if group.by_id else text)


def _span_text(span: Span) -> str:
    return f"{span.file}[{span.start}:{span.end}]"
