"""What a report is made of: result documents, read into the values that it shows; what went wrong.

docs/evaluator.md describes the documents, those of evaluations and of `judged metrics`. A field
that is missing is one the report does not show; one of the wrong type is an error that names it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntFlag
from functools import cached_property

from judged._files import FileError, Record
from judged.errors import InvalidArgument
from judged.report.document import QueryResult, RetrievedResult, part_of, read_table, read_values
from judged.values import MetricCounts, MetricResult, MetricSlice, RunComparison

_THRESHOLD = re.compile(r"\|min_score:([0-9.eE+-]+)")
_HIT_METRICS = ("hit_rate", "mrr", "recall", "precision", "ndcg", "ap", "f1")
"""Metrics that are 0 only where no relevant document is retrieved, within their cutoff."""
TOOK = {
    "cost": "cost",
    "calls": "calls answered",
    "attempts": "attempts",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "cached": "replies from the cache",
    "shared": "replies shared with other callers",
    "latency_s": "seconds of all calls together",
}
"""What is shown of the usage of language models, in words."""
TEST = "paired sign-flip test, corrected by Holm"
"""The test of differences that `verdict_of` goes by."""


class NoResultDocument(InvalidArgument, ValueError):
    """What was to be shown is no result document; the message names what is wrong in it."""

    __module__ = "judged.report"


@dataclass(frozen=True, slots=True, repr=False)
class ReportedQuery(QueryResult):
    """One query: its values by metric, and as far as they are known its texts and results.

    `first_hit` is the rank of the first relevant result, from 1; 0 where there is none, None where
    it is not known.
    """

    query: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    first_hit: int | None = None


@dataclass(frozen=True)
class Run:
    """One result document. `signature` says who judged and how, `usage` what that took by name."""

    name: str
    metrics: Sequence[MetricResult]
    queries: Sequence[ReportedQuery]
    slices: Sequence[MetricSlice]
    counts: MetricCounts | None
    signature: str
    threshold: float | None
    usage: Mapping[str, float | None]
    warnings: Sequence[str]

    @cached_property
    def by_id(self) -> Mapping[str, ReportedQuery]:
        """The queries by their ids."""
        return {query.query_id: query for query in self.queries}

    @property
    def primary(self) -> str:
        """The metric that queries are sorted by: the first; "" where there is none."""
        return self.metrics[0].name if self.metrics else ""

    @property
    def n_queries(self) -> int:
        """How many queries the run was about."""
        return len(self.queries) if self.counts is None else self.counts.queries


@dataclass(frozen=True, slots=True)
class Report:
    """A run, and where there is one the baseline that it is held against.

    `gates` are sentences about gates with whether each was passed.
    """

    run: Run
    baseline: Run | None = None
    differences: Sequence[RunComparison] = ()
    gates: Sequence[tuple[bool, str]] = ()
    title: str = "judged report"


def make_report(
    document: object,
    baseline: object | None = None,
    comparisons: Sequence[RunComparison] = (),
    *,
    title: str = "Evaluation report",
    names: tuple[str, str] = ("", ""),
) -> Report:
    """Return the report of a result document, beside that of a baseline where there is one.

    `comparisons` say how the two differ, as `ComparedRuns` has them, and their warnings become the
    run's; `names` are what the run and the baseline are called. Raises NoResultDocument.
    """
    told: dict[str, None] = {}
    for made in comparisons:
        # An interval without width is what the comparison's own warning is about already.
        interval = made.difference.interval
        said = made.warnings or (() if interval is None else interval.warnings)
        told |= {f"difference of {made.metric}: {warning}": None for warning in said}
    with _reading():
        run = read_run(document, names[0])
        before = None if baseline is None else read_run(baseline, names[1])
        gates = Record(document, "document", None, "").records("gates")
        held = [(bool(g.optional_label("passed")), g.optional_text("message") or "") for g in gates]
    run = replace(run, warnings=[*run.warnings, *told])
    return Report(run, before, comparisons, held, title)


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except FileError as error:
        raise NoResultDocument.of_field(error.name, error.problem) from None


def verdict_of(made: RunComparison) -> str:
    """Return what the test says of the run: better, worse, or no clear difference."""
    value, interval = made.difference.value, made.difference.interval
    confidence = 0.95 if interval is None else interval.confidence
    if value is None or made.permutation.p_holm >= 1 - confidence:
        return "no clear difference"
    return "better" if value > 0 else "worse"


def read_run(document: object, name: str = "") -> Run:
    """Return the run of a result document. Raises FileError."""
    root = Record(document, "document", None, "")
    table = read_table(root)
    signature = root.optional_text("signature")
    threshold = part_of(root, "judge").optional_number("min_score")
    if threshold is None and signature and (found := _THRESHOLD.search(signature)):
        threshold = float(found[1])
    values, usage = read_values(root), root.record("usage")
    if root.get("queries") is None:
        queries = [ReportedQuery(q, values=of, first_hit=_no_hit(of)) for q, of in values.items()]
    else:
        queries = [_query(query, values) for query in root.records("queries")]
    return Run(
        name=name or root.optional_text("name") or "result",
        metrics=table.metrics,
        queries=queries,
        slices=table.slices,
        counts=None if root.get("counts") is None else table.counts,
        signature=signature or "none: matched by document id, or measured by qrels",
        threshold=threshold,
        usage={} if usage is None else {each: usage.optional_number(each) for each in TOOK},
        warnings=[str(warning) for warning in root.items("warnings")],
    )


def _query(query: Record, values: Mapping[str, Mapping[str, float]]) -> ReportedQuery:
    results = [
        result.read(RetrievedResult, rank=rank)
        for rank, result in enumerate(query.records("retrieved"), 1)
    ]
    return query.read(
        ReportedQuery,
        values=values.get(query.text("query_id"), {}),
        expected=query.texts("expected") or query.texts("relevant_document_ids"),
        retrieved=results,
        first_hit=_first_hit(results),
    )


def _first_hit(results: Sequence[RetrievedResult]) -> int | None:
    """Return the rank of the first relevant result, repeated ones not counted.

    0 where none is, None where that is not known for any.
    """
    ranked = [result for result in results if not result.duplicate]
    for rank, result in enumerate(ranked, 1):
        if result.relevant:
            return rank
    known = not ranked or any(result.relevant is not None for result in ranked)
    return 0 if known else None


def _no_hit(values: Mapping[str, float]) -> int | None:
    """Return 0 where the values of a query show that nothing relevant was retrieved, else None."""
    telling = [
        value for name, value in values.items() if re.split(r"[@(]", name)[0] in _HIT_METRICS
    ]
    return 0 if telling and not any(telling) else None


LOW_RANK = 3
"""A first relevant result below this rank is low."""


class Kind(IntFlag):
    """What can be wrong with a query; several may be at once."""

    NOTHING_RELEVANT = 1
    LOW = 2
    JUDGE_MISSING = 4
    JUDGES_DISAGREE = 8
    RETRIEVER_FAILED = 16


KINDS = {
    Kind.NOTHING_RELEVANT: ("nothing relevant retrieved", "No result of the query is relevant."),
    Kind.LOW: (
        "relevant, but low",
        f"The first relevant result is below rank {LOW_RANK}.",
    ),
    Kind.JUDGE_MISSING: (
        "judge missing",
        "A verdict on the query failed, or the judge abstained.",
    ),
    Kind.JUDGES_DISAGREE: (
        "judges disagree",
        "Votes on a result of the query are on both sides.",
    ),
    Kind.RETRIEVER_FAILED: (
        "retriever failed",
        "The retriever raised an error, so the query has no value.",
    ),
}
"""Each kind in words, and a sentence on what is counted there."""


def kinds_of(query: ReportedQuery) -> Kind:
    """Return all that is wrong with a query, as far as it is known."""
    found = Kind(0)
    if query.failure:
        return Kind.RETRIEVER_FAILED
    if any(result.status in {"ERROR", "ABSTAINED"} for result in query.retrieved):
        found |= Kind.JUDGE_MISSING
    if any(result.agreement is not None and result.agreement < 1 for result in query.retrieved):
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
