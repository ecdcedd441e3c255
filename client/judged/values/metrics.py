"""Options of metrics, tables of metrics and of text metrics, and evaluations."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from judged._inputs import Given
from judged._views import Row, View, plain, row_of
from judged.errors import InvalidArgument
from judged.values.agreement import IdFit, PerQueryValues
from judged.values.choices import (
    CorrectedEstimate,
    Interval,
    IntervalOptions,
    Matching,
    NoGold,
    Unjudged,
    ends_of,
    is_metric,
)
from judged.values.groups import VerdictCounts, Verdicts
from judged.values.judges import JudgeIdentity, Usage


@dataclass(frozen=True)
class MetricOptions(Given):
    """How metrics are computed. None means the server's default; for `interval`, no interval.

    `slice_by` names keys of the queries' metadata. For qrels only: `unjudged`; `relevance_level`,
    the smallest grade that is relevant (trec_eval -l); `max_documents`, the most documents of a
    topic that are ranked (trec_eval -M).
    """

    matching: Matching | None = None
    no_gold: NoGold | None = None
    strict_duplicates: bool = False
    complete: bool = False
    per_query: bool = False
    interval: IntervalOptions | None = None
    slice_by: Sequence[str] = ()
    unjudged: Unjudged | None = None
    relevance_level: int | None = None
    max_documents: int | None = None


@dataclass(frozen=True, repr=False)
class MetricResult(View):
    """One metric. `mean` is None if no query was evaluated.

    Bounds exist if verdicts are missing, or for Unjudged.BOUNDS; the interval if it was asked for
    and there are two queries or more. `corrected` exists if there were human labels.
    """

    name: str
    mean: float | None
    n: int
    lower_bound: float | None
    upper_bound: float | None
    signature: str
    per_query: Sequence[float]
    interval: Interval | None = None
    corrected: CorrectedEstimate | None = None

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row: the metric's mean with its interval, bounds and signature."""
        row = _row_of_metric(self, "lower_bound upper_bound signature")
        if self.corrected is not None and self.corrected.corrected is not None:
            row["corrected"] = self.corrected.corrected.value
        return [row]


@dataclass(frozen=True, repr=False)
class MetricCounts(View):
    """What was and was not counted in a mean. `verdicts` is None for qrels and gains."""

    queries: int = 0
    evaluated: int = 0
    skipped_no_gold: int = 0
    skipped_missing: int = 0
    skipped_unjudged: int = 0
    skipped_unsettled: int = 0
    duplicates: int = 0
    retrieved: int = 0
    verdicts: VerdictCounts | None = None
    unjudged: int = 0


def _row_of_metric(metric: MetricResult | TextMetricResult, others: str) -> Row:
    means = row_of(metric, "mean n", **ends_of(metric.interval))
    return {"metric": metric.name} | means | row_of(metric, others)


_Result = TypeVar("_Result", "MetricResult", "TextMetricResult")


class _Metrics(View, Generic[_Result]):
    """Metrics by their names, in the order asked for.

    Any spelling of a name is accepted, as in a call: `rbp(p=0.8)@2` is `rbp@2`, because p defaults
    to 0.8.
    """

    metrics: Sequence[_Result]

    def __getitem__(self, name: str) -> _Result:
        if (found := self._find(name)) is None:
            raise KeyError(f"{name}; this table has {', '.join(m.name for m in self.metrics)}")
        return found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def _find(self, name: str) -> _Result | None:
        return next((m for m in self.metrics if is_metric(name, m.name, m.signature)), None)

    def __iter__(self) -> Iterator[_Result]:
        return iter(self.metrics)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per metric."""
        return [row for metric in self.metrics for row in metric.to_rows()]


@dataclass(frozen=True, repr=False)
class MetricSlice(_Metrics[MetricResult]):
    """The metrics of the queries with `value` under `key` in their metadata; "" if they lack it."""

    key: str
    value: str
    metrics: Sequence[MetricResult]

    def to_dict(self) -> dict[str, Any]:
        """Return the slice as in the JSON document of a table."""
        return {"key": self.key, "value": self.value, "metrics": _by_name(self.metrics)}


@dataclass(frozen=True, repr=False)
class MetricTable(_Metrics[MetricResult]):
    """The metrics of a call. `query_ids` names the rows of `per_query` if these were asked for.

    `warnings` say what makes the means doubtful: topics that are left out, or that hardly any id of
    a judged document is among those retrieved, by `id_fit`, which is None if no ids are matched.
    """

    metrics: Sequence[MetricResult]
    query_ids: Sequence[str]
    counts: MetricCounts
    slices: Sequence[MetricSlice] = field(default_factory=list)
    warnings: Sequence[str] = ()
    id_fit: IdFit | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `judged compare` reads.

        `judged compare` needs the values of queries: ask for them by MetricOptions(per_query=True).
        """
        return {
            "metrics": _by_name(self.metrics),
            "slices": [part.to_dict() for part in self.slices],
            "per_query": dict(self.query_values()),
            "counts": self.counts.to_dict(),
            "signature": None,
            "warnings": list(self.warnings),
        }

    def query_values(self) -> Iterator[tuple[str, dict[str, float]]]:
        """Yield each query's id and its values by metric; none without MetricOptions(per_query)."""
        names = [metric.name for metric in self.metrics]
        columns = (metric.per_query for metric in self.metrics)
        for query_id, *row in zip(self.query_ids, *columns, strict=False):
            yield query_id, {n: v for n, v in zip(names, row, strict=True) if not math.isnan(v)}

    def per_query_values(self) -> PerQueryValues:
        """Return each query's values as `compare_runs` and `compute_metrics` take them.

        Raises InvalidArgument if the call did not ask for them by MetricOptions(per_query=True).
        """
        if not self.query_ids and self.counts.evaluated:
            rule = "was not asked for; compute the table with MetricOptions(per_query=True)"
            raise InvalidArgument.of_field("per_query", rule)
        return PerQueryValues(self.query_ids, [metric.per_query for metric in self.metrics])


def _by_name(metrics: Sequence[MetricResult]) -> dict[str, dict[str, Any]]:
    names = "mean n interval lower_bound upper_bound signature"
    return {
        metric.name: row_of(metric, names, interval=plain(metric.interval)) for metric in metrics
    }


@dataclass(frozen=True)
class TextItem(Given):
    """A text to measure, and one or more correct references. Any of these texts may be empty."""

    hypothesis: str
    references: Sequence[str]


@dataclass(frozen=True, repr=False)
class TextMetricResult(View):
    """One metric over all items: its mean, in [0, 1], over the `n` items that have a value.

    `interval` is None unless asked for, and for fewer than two items. `values`, one per item, are
    empty unless asked for; so are `precision` and `recall`, also for metrics that have none. NaN
    means no value: the metric reads no letter of a text; `without_value` counts such items.
    `unread` counts the items of which it does not read a large part, including these.
    """

    name: str
    mean: float
    n: int
    interval: Interval | None
    signature: str
    values: Sequence[float]
    precision: Sequence[float]
    recall: Sequence[float]
    without_value: int = 0
    unread: int = 0

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row: the metric's mean with its interval and signature."""
        return [_row_of_metric(self, "signature")]


@dataclass(frozen=True, repr=False)
class TextMetricTable(_Metrics[TextMetricResult]):
    """The text metrics of a call, in the order asked for."""

    metrics: Sequence[TextMetricResult]


@dataclass(frozen=True)
class NegativeMatch:
    """A retrieved text that matches a negative reference.

    `retrieved` is its rank, from 0; `negative` is the reference's index in the group's negatives.
    """

    query_id: str
    retrieved: int
    negative: int
    document_id: str
    score: float


@dataclass(frozen=True, repr=False)
class NegativeReport(View):
    """The results that match a negative reference, by group and rank, with numbers of queries.

    `queries` have negatives; `queries_hit` of them have a match. `counts` are of the verdicts of
    all results on all negatives of their queries.
    """

    queries: int
    queries_hit: int
    matches: Sequence[NegativeMatch]
    counts: VerdictCounts


@dataclass(frozen=True, repr=False)
class Evaluation(View):
    """Metrics of judged groups, and the judge (None if it had nothing to judge).

    `negatives` is None if no group has any, `usage` if no language model was asked.
    """

    table: MetricTable
    judge: JudgeIdentity | None
    verdicts: Verdicts | None
    negatives: NegativeReport | None = None
    usage: Usage | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the document that `judged compare` reads; see MetricTable."""
        document = {
            **self.table.to_dict(),
            "signature": None if self.judge is None else self.judge.signature,
        }
        more = {"usage": self.usage, "negatives": self.negatives}
        return document | {name: plain(value) for name, value in more.items() if value}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per metric; `table.query_values()` has the values of queries."""
        return self.table.to_rows()
