"""What went wrong with queries, by kind, and which queries are the worst."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag

from judged.report.content import ReportedQuery, Run

LOW_RANK = 3
"""A first relevant result below this rank is low."""


class Kind(IntFlag):
    """What can be wrong with a query; several may be at once."""

    NOTHING_RELEVANT = 1
    LOW = 2
    JUDGE_MISSING = 4
    JUDGES_DISAGREE = 8
    RETRIEVER_FAILED = 16

    @property
    def title(self) -> str:
        """The kind in words."""
        return _TITLES[self]

    @property
    def explanation(self) -> str:
        """One sentence on what is counted here."""
        return _EXPLANATIONS[self]


_TITLES = {
    Kind.NOTHING_RELEVANT: "nothing relevant retrieved",
    Kind.LOW: "relevant, but low",
    Kind.JUDGE_MISSING: "judge missing",
    Kind.JUDGES_DISAGREE: "judges disagree",
    Kind.RETRIEVER_FAILED: "retriever failed",
}
_EXPLANATIONS = {
    Kind.NOTHING_RELEVANT: "No result of the query is relevant.",
    Kind.LOW: f"The first relevant result is below rank {LOW_RANK}.",
    Kind.JUDGE_MISSING: "A verdict on the query failed, or the judge abstained.",
    Kind.JUDGES_DISAGREE: "Votes on a result of the query are on both sides.",
    Kind.RETRIEVER_FAILED: "The retriever raised an error, so the query has no value.",
}


def kinds_of(query: ReportedQuery) -> Kind:
    """Return all that is wrong with a query, as far as it is known."""
    found = Kind(0)
    if query.failure:
        return Kind.RETRIEVER_FAILED
    if any(result.status in {"ERROR", "ABSTAINED"} for result in query.results):
        found |= Kind.JUDGE_MISSING
    if any(result.agreement is not None and result.agreement < 1 for result in query.results):
        found |= Kind.JUDGES_DISAGREE
    if query.first_hit == 0:
        # With verdicts missing, none may be known to be relevant although one is.
        found |= Kind(0) if found & Kind.JUDGE_MISSING else Kind.NOTHING_RELEVANT
    elif query.first_hit is not None and query.first_hit > LOW_RANK:
        found |= Kind.LOW
    return found


def worst_first(run: Run, baseline: Run | None = None) -> Sequence[ReportedQuery]:
    """Return the queries of a run, the worst first.

    Beside a baseline those come first that lost most by the first metric; else those with the
    smallest values. Queries without a value come before all others, ties by id.
    """
    metric = run.primary

    def badness(query: ReportedQuery) -> tuple[float, float, str]:
        value = query.values.get(metric)
        if value is None:
            return -2.0, -1.0, query.query_id
        before = None
        if baseline is not None and (other := baseline.by_id.get(query.query_id)) is not None:
            before = other.values.get(metric)
        return (value - before if before is not None else 0.0), value, query.query_id

    return sorted(run.queries, key=badness)
