"""Texts to compare with references, and what comes of it. No protobuf, no NumPy.

How they travel is up to `_convert`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from judged._inputs import as_list, set_fields
from judged._views import View, named_mean
from judged.types.statistics import Interval


@dataclass(frozen=True, slots=True)
class TextItem:
    """A text to measure, and at least one reference that is right. Any of them may be empty."""

    hypothesis: str
    references: Sequence[str]

    def __post_init__(self) -> None:
        set_fields(self, references=as_list(self.references))


@dataclass(frozen=True, slots=True, repr=False)
class TextMetricResult(View):
    """One metric over all items: its mean over `n`, in [0, 1].

    `interval` is None unless asked for, and for fewer than two items. `values`, one an item, are
    empty unless asked for; so are `precision` and `recall`, also for metrics that have none.
    """

    name: str
    mean: float
    n: int
    interval: Interval | None
    signature: str
    values: Sequence[float]
    precision: Sequence[float]
    recall: Sequence[float]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row: the mean, what it is of, and how sure it is."""
        interval = self.interval
        return [
            {
                "metric": self.name,
                "mean": self.mean,
                "n": self.n,
                "lower": None if interval is None else interval.lower,
                "upper": None if interval is None else interval.upper,
                "signature": self.signature,
            }
        ]


@dataclass(frozen=True, slots=True, repr=False)
class TextMetricTable(View):
    """The text metrics of a call, in the order asked for."""

    metrics: Sequence[TextMetricResult]

    def __getitem__(self, name: str) -> TextMetricResult:
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise KeyError(f"{name}; this table has {', '.join(m.name for m in self.metrics)}")

    def __contains__(self, name: object) -> bool:
        return any(metric.name == name for metric in self.metrics)

    def __iter__(self) -> Iterator[TextMetricResult]:
        return iter(self.metrics)

    def __repr__(self) -> str:
        means = [named_mean(metric.name, metric.mean) for metric in self.metrics]
        return f"TextMetricTable({', '.join(means)})"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a metric."""
        return [row for metric in self.metrics for row in metric.to_rows()]
