"""What comes back of measuring: tables of metrics, and what went into them.

Owns the values. How they travel is up to `_messages`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from judged.correction import CorrectedEstimate
from judged.statistics import Interval
from judged.verdicts import VerdictCounts


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric. `mean` is None when no query was evaluated.

    Bounds exist when verdicts miss, or for Unjudged.BOUNDS; the interval when it was asked for and
    there are two queries or more. `corrected` exists when there were human labels, and so do the
    bounds of single queries, when asked for per-query values.
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
    per_query_lower: Sequence[float] = ()
    per_query_upper: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class MetricCounts:
    """What went into a mean and what did not. `verdicts` is None for qrels and gains."""

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


@dataclass(frozen=True, slots=True)
class MetricSlice:
    """The metrics of the queries whose metadata have `value` under `key`, "" if they lack it."""

    key: str
    value: str
    metrics: Sequence[MetricResult]

    def __getitem__(self, name: str) -> MetricResult:
        return _named(self.metrics, name)


@dataclass(frozen=True, slots=True)
class MetricTable:
    """The metrics of a call. `query_ids` names the rows of `per_query` when they were asked for."""

    metrics: Sequence[MetricResult]
    query_ids: Sequence[str]
    counts: MetricCounts
    slices: Sequence[MetricSlice] = field(default_factory=list)

    def __getitem__(self, name: str) -> MetricResult:
        return _named(self.metrics, name)


def _named(metrics: Sequence[MetricResult], name: str) -> MetricResult:
    for metric in metrics:
        if metric.name == name:
            return metric
    raise KeyError(f"{name}; this table has {', '.join(m.name for m in metrics)}")
