"""Every query with what was retrieved and what the judge made of it, from columns of verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from judged._batching.chunks import distinct_ranks
from judged.evaluation.datasets.query import Query
from judged.evaluation.datasets.results import Retrieved
from judged.evaluation.query_result import QueryResult, RetrievedResult
from judged.values import QueryGroup, Span, Status, Verdicts
from judged.values.verdicts import vote_agreement

_OK = int(Status.OK)


def query_results(
    queries: Sequence[Query],
    groups: Sequence[QueryGroup],
    ranked: Mapping[str, Sequence[Retrieved]],
    verdicts: Verdicts | None,
    failures: Mapping[str, str],
) -> list[QueryResult]:
    """Return one result a query, in order.

    `verdicts` are those of the groups without their repeated results; groups are those of the
    queries on which the retriever did not fail.
    """
    places = {group.query_id: place for place, group in enumerate(groups)}
    found = []
    for query in queries:
        place = places.get(query.query_id)
        group = None if place is None else groups[place]
        result = query_result(query, group, place or 0, ranked.get(query.query_id, ()), verdicts)
        found.append(replace(result, failure=failures.get(query.query_id)))
    return found


def query_result(
    query: Query,
    group: QueryGroup | None,
    place: int,
    ranked: Sequence[Retrieved],
    verdicts: Verdicts | None,
) -> QueryResult:
    """Return the result of one query, whose group is the one at a place of those judged.

    There is no group where the retriever failed.
    """
    retrieved: list[RetrievedResult] = []
    expected: Sequence[str] = query.expected_answers
    if group is not None:
        retrieved = _retrieved(group, place, verdicts, [result.score for result in ranked])
        if group.spans is not None:
            expected = [_span_text(span) for span in group.spans.expected]
    return QueryResult(
        query.query_id,
        query.text,
        list(expected),
        list(query.relevant_document_ids),
        list(query.negative_answers),
        dict(query.metadata),
        retrieved,
    )


def _retrieved(
    group: QueryGroup, place: int, verdicts: Verdicts | None, scores: Sequence[float | None]
) -> list[RetrievedResult]:
    kept = {rank: position for position, rank in enumerate(distinct_ranks(group))}
    wanted = {name: i for i, name in enumerate(dict.fromkeys(group.relevant_document_ids))}
    width = group.n_expected or 1
    start = end = 0
    if verdicts is not None:
        start, end = verdicts.offsets[place : place + 2]
    judged = not group.by_id and verdicts is not None and end - start == len(kept) * width
    found = []
    for rank in range(group.n_retrieved):
        document_id = group.document_ids[rank] if group.document_ids else f"retrieved_{rank}"
        text = _text(group, rank)
        score = scores[rank] if rank < len(scores) else None
        position = kept.get(rank)
        if position is None:
            result = RetrievedResult(rank + 1, document_id, text, duplicate=True)
        elif group.by_id:
            match = wanted.get(document_id)
            matches = () if match is None else (match,)
            result = RetrievedResult(
                rank + 1, document_id, text, match is not None, status="OK", matches=matches
            )
        elif judged and verdicts is not None:
            first = start + position * width
            result = _judged(rank + 1, document_id, text, verdicts, range(first, first + width))
        else:
            result = RetrievedResult(rank + 1, document_id, text)
        found.append(result if score is None else replace(result, retriever_score=score))
    return found


def _judged(
    rank: int, document_id: str, text: str | None, verdicts: Verdicts, cells: range
) -> RetrievedResult:
    """Return a result by the verdicts on it: one for each expected text."""
    span = slice(cells.start, cells.stop)
    if not verdicts.errors and not verdicts.probability:
        statuses = verdicts.status[span]
        if max(statuses) == min(statuses) == _OK:  # as nearly always
            relevant = verdicts.relevant[span]
            matched = tuple(i for i, yes in enumerate(relevant) if yes)
            score = max(verdicts.score[span])
            return RetrievedResult(
                rank, document_id, text, bool(matched), score, "OK", None, matched
            )
    ok = [cell for cell in cells if verdicts.status[cell] == Status.OK]
    matches = tuple(cell - cells.start for cell in ok if verdicts.relevant[cell])
    missing = next((cell for cell in cells if verdicts.status[cell] != Status.OK), None)
    decided = bool(matches) or missing is None
    best = max(ok, key=lambda cell: verdicts.score[cell], default=None)
    probabilities = verdicts.probability
    error = None if decided or missing is None else verdicts.errors.get(missing)
    votes = [vote_agreement(verdicts[cell], verdicts.judge) for cell in ok if verdicts.agreement]
    return RetrievedResult(
        rank,
        document_id,
        text,
        bool(matches) if decided else None,
        None if best is None else verdicts.score[best],
        "OK" if decided or missing is None else Status(verdicts.status[missing]).name,
        None if error is None else f"{error.reason}: {error.message}",
        matches,
        probability=probabilities[best] if best is not None and probabilities else None,
        agreement=min((share for share in votes if share is not None), default=None),
    )


def _text(group: QueryGroup, rank: int) -> str | None:
    if group.spans is not None:
        return _span_text(group.spans.retrieved[rank])
    text = group.retrieved[rank] if group.retrieved else ""
    return text or (None if group.by_id else text)


def _span_text(span: Span) -> str:
    return f"{span.file}[{span.start}:{span.end}]"
