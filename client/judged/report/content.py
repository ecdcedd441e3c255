"""Reads result documents, and derives what reports show of them.

docs/evaluator.md describes the fields of these documents, which evaluations and `judged metrics`
write. Within a version, fields are only ever added. A report does not show a missing field; a field
of the wrong type is an error that names it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntFlag
from functools import cached_property
from typing import Any

from judged._files import FileError, Record
from judged._views import View, of_all, plural
from judged.errors import InvalidArgument
from judged.values import (
    Interval,
    MetricCounts,
    MetricResult,
    MetricSlice,
    MetricTable,
    RunComparison,
)


@dataclass(frozen=True, slots=True)
class RetrievedResult:
    """One retrieved document and its verdict.

    `rank` counts from 1. `relevant` is whether any expected text is matched, `matches` has the
    indices of those that are, `score` is the best of all. If verdicts are missing and none is
    relevant, `relevant` is None, and `status` and `error` say why. A `duplicate` repeats an earlier
    result of its query and was not judged. Matching by document id gives no score. `probability` is
    that of the best score, if the judge is calibrated; `agreement` is the smallest share of votes
    on the majority's side, if there were several votes.
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
    """One query: what it should find, and what was retrieved, best first.

    `failure` says why the retriever failed; such a query counts in no metric.
    """

    query_id: str
    query: str
    expected: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    negatives: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    failure: str | None = None
    retrieved: Sequence[RetrievedResult] = ()

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


def read_table(root: Record) -> MetricTable:
    """Return the metrics of a document, with their values by query."""
    if root.get("metrics") is None or root.get("per_query") is None:
        raise root.error(
            'has no "metrics" and "per_query"; write one with judged evaluate --json FILE, '
            "judged metrics --json FILE or a result's to_json",
        )
    values, slices = read_values(root), root.records("slices")
    return MetricTable(
        read_metrics(root, values),
        list(values),
        part_of(root, "counts").read(MetricCounts),
        [part.read(MetricSlice, metrics=read_metrics(part)) for part in slices],
    )


def read_metrics(
    holder: Record, values: Mapping[str, Mapping[str, float]] | None = None
) -> list[MetricResult]:
    """Return the metrics of a document or of a slice, with the queries' values if given."""
    named = part_of(holder, "metrics")
    found = []
    for name in named.fields:
        column = [of_query.get(name, math.nan) for of_query in (values or {}).values()]
        found.append(part_of(named, name).read(MetricResult, name=name, per_query=column))
    return found


def read_values(root: Record) -> dict[str, dict[str, float]]:
    """Return the values of each query by metric, without missing ones."""
    per_query = root.value("per_query", Mapping[str, Mapping[str, float | None]])
    return {
        query_id: {name: value for name, value in of_query.items() if value is not None}
        for query_id, of_query in per_query.items()
    }


def part_of(record: Record, name: str) -> Record:
    """Return the object in a field, an empty one if it is missing."""
    value = record.get(name)
    return record.inner({} if value is None else value, name)


TEST = "paired sign-flip test, corrected by Holm"
"""The test of differences that `verdict_of` uses."""


class NoResultDocument(InvalidArgument, ValueError):
    """This is not a result document; the message says what is wrong with it."""

    __module__ = "judged.report"


@dataclass(frozen=True, slots=True, repr=False)
class ReportedQuery(QueryResult):
    """One query: its values by metric, and, if known, its texts and results.

    `first_hit` is the rank of the first relevant result, from 1; 0 if there is none, None if it is
    not known.
    """

    query: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    first_hit: int | None = None


@dataclass(frozen=True)
class Run:
    """One result document. `signature` identifies the judge and its settings."""

    name: str
    metrics: Sequence[MetricResult]
    queries: Sequence[ReportedQuery]
    slices: Sequence[MetricSlice]
    counts: MetricCounts
    signature: str
    warnings: Sequence[str]

    @cached_property
    def by_id(self) -> Mapping[str, ReportedQuery]:
        """The queries by their ids."""
        return {query.query_id: query for query in self.queries}

    @property
    def primary(self) -> str:
        """The metric that queries are sorted by: the first; "" if there is none."""
        return self.metrics[0].name if self.metrics else ""


@dataclass(frozen=True, slots=True)
class Report:
    """A run, and the baseline it is compared with, if any.

    `gates` has, for each gate, whether it passed and a sentence about it.
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
    remarks: Sequence[str] = (),
) -> Report:
    """Return the report of a result document, compared with a baseline if there is one.

    `comparisons` are their differences, as in `ComparedRuns`; their warnings, and `remarks` on the
    two documents, are added to the run's.
    `names` are the names of run and baseline. Raises NoResultDocument.
    """
    warnings = dict.fromkeys(remarks)
    for made in comparisons:
        new = made.warnings or made.interval_warnings
        warnings |= {f"difference of {made.metric}: {warning}": None for warning in new}
    try:
        run = read_run(document, names[0])
        before = None if baseline is None else read_run(baseline, names[1])
        rows = Record(document, "document", None, "").records("gates")
        gates = [(bool(g.optional_label("passed")), g.optional_text("message") or "") for g in rows]
    except FileError as error:
        raise NoResultDocument.of_field(error.name, error.problem) from None
    run = replace(run, warnings=[*run.warnings, *warnings])
    return Report(run, before, comparisons, gates, title)


def verdict_of(made: RunComparison) -> str:
    """Return the result of the test: the run is better, worse, or no clear difference."""
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
    values = read_values(root)
    if root.get("queries") is None:
        queries = [ReportedQuery(query_id, values=of) for query_id, of in values.items()]
    else:
        queries = [_query(query, values) for query in root.records("queries")]
    known = root.get("counts") is not None
    counts = table.counts if known else MetricCounts(len(queries), len(queries))
    return Run(
        name=name or root.optional_text("name") or "result",
        metrics=table.metrics,
        queries=queries,
        slices=table.slices,
        counts=counts,
        signature=signature or "none: no judge was asked",
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
    """Return the rank of the first relevant result, duplicates not counted.

    0 if none is relevant, None if relevance is not known for any.
    """
    ranked = [result for result in results if not result.duplicate]
    for rank, result in enumerate(ranked, 1):
        if result.relevant:
            return rank
    known = not ranked or any(result.relevant is not None for result in ranked)
    return 0 if known else None


LOW_RANK = 3
"""A first relevant result below this rank is low."""


class Kind(IntFlag):
    """Problems that a query can have; several can apply."""

    NOTHING_RELEVANT = 1
    LOW = 2
    JUDGE_MISSING = 4
    JUDGES_DISAGREE = 8
    RETRIEVER_FAILED = 16


KINDS = {
    Kind.NOTHING_RELEVANT: "nothing relevant retrieved",
    Kind.LOW: f"first relevant result below rank {LOW_RANK}",
    Kind.JUDGE_MISSING: "judge missing",
    Kind.JUDGES_DISAGREE: "judges disagree",
    Kind.RETRIEVER_FAILED: "retriever failed",
}
"""Each kind in words."""


def kinds_of(query: ReportedQuery) -> Kind:
    """Return all known problems of a query."""
    found = Kind(0)
    if query.failure:
        return Kind.RETRIEVER_FAILED
    if any(result.status in {"ERROR", "ABSTAINED"} for result in query.retrieved):
        found |= Kind.JUDGE_MISSING
    if any(result.agreement is not None and result.agreement < 1 for result in query.retrieved):
        found |= Kind.JUDGES_DISAGREE
    if query.first_hit == 0:
        # With verdicts missing, a relevant result may not be known as such.
        found |= Kind(0) if found & Kind.JUDGE_MISSING else Kind.NOTHING_RELEVANT
    elif query.first_hit is not None and query.first_hit > LOW_RANK:
        found |= Kind.LOW
    return found


def worst_first(run: Run, baseline: Run | None = None) -> Sequence[ReportedQuery]:
    """Return the queries of a run, worst first.

    With a baseline, those that lost most by the first metric come first, else those with the
    smallest values. Queries without a value come before all others; ties are broken by id.
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


def about(run: Run) -> str:
    """Return the numbers of queries, results and verdicts behind a run's metrics, as a line."""
    # Queries on which the retriever failed are not among those counted.
    n = max(run.counts.queries, len(run.queries))
    line, verdicts = describe_counts(replace(run.counts, queries=n)), run.counts.verdicts
    return line if verdicts is None else f"{line}, {of_all(verdicts.ok, verdicts.total, 'verdict')}"


def describe_counts(counts: MetricCounts) -> str:
    """Return the numbers of queries and results behind the means, as a line."""
    results = plural(counts.retrieved, "result")
    return f"{of_all(counts.evaluated, counts.queries, 'query', 'queries')}, {results}"


def number(value: float | None) -> str:
    """Return a number with four decimals, or a dash."""
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"


def signed(value: float | None) -> str:
    """Return a difference with its sign."""
    return "-" if value is None else f"{value:+.4f}"


def ends(interval: Interval | None, form: str = ".4f") -> str:
    """Return the ends of an interval, or a dash."""
    return "-" if interval is None else f"{interval.lower:{form}} to {interval.upper:{form}}"


def signed_ends(interval: Interval | None) -> str:
    """Return the ends of the interval of a difference, or a dash."""
    return ends(interval, "+.4f")


def p_value(value: float) -> str:
    """Return a p-value with four decimals; smaller ones as "<0.0001"."""
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def difference_cells(made: RunComparison) -> list[str]:
    """Return the means, their difference with its interval, p, and the queries won, lost, tied."""
    return [
        number(made.baseline_mean),
        number(made.run_mean),
        signed(made.difference.value),
        signed_ends(made.difference.interval),
        p_value(made.permutation.p_holm),
        f"{made.wins}/{made.losses}/{made.ties}",
    ]


def share(value: float) -> str:
    """Return a share with four digits; only exactly 1 is shown as 1."""
    text = f"{value:.4g}"
    return text if text != "1" or value == 1 else f"{value:.9g}"


_CONTROLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n"}
_CONTROLS[0x7F] = 0x2421
_HIDDEN = str.maketrans(_CONTROLS)
# Characters that UTF-8 or XML 1.0 can't contain, and C1 controls, which browsers don't show.
_UNPRINTABLE = re.compile("[\ud800-\udfff\x80-\x9f\ufffe\uffff]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+\-!|~&])")


def visible(text: str) -> str:
    """Return a text with control characters replaced by their pictures, NUL by U+2400 and so on."""
    return _UNPRINTABLE.sub("\ufffd", text.replace("\r\n", "\n").translate(_HIDDEN))


def markdown(text: str, longest: int = 120) -> str:
    """Return a text as one escaped line of Markdown, cut to `longest` characters."""
    line = " ".join(visible(text).split())
    if len(line) > longest:
        line = f"{line[: longest - 1]}…"
    # Otherwise a bare URL becomes a link, and a name after @ notifies a person.
    return _MARKDOWN.sub(r"\\\1", line).replace("@", "@\u200b").replace("://", ":\u200b//")
