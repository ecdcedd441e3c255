"""Texts to compare with references, and what comes of it. No protobuf, no NumPy.

Owns the public values of ComputeTextMetrics. How they travel is up to `_text_metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judged._inputs import as_list, set_fields
from judged.statistics import Interval


@dataclass(frozen=True, slots=True)
class TextItem:
    """A text to measure, and at least one reference that is right. Any of them may be empty."""

    hypothesis: str
    references: Sequence[str]

    def __post_init__(self) -> None:
        set_fields(self, references=as_list(self.references))


@dataclass(frozen=True, slots=True)
class TextMetricResult:
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


@dataclass(frozen=True, slots=True)
class TextMetricTable:
    """The text metrics of a call, in the order asked for."""

    metrics: Sequence[TextMetricResult]

    def __getitem__(self, name: str) -> TextMetricResult:
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise KeyError(f"{name}; this table has {', '.join(m.name for m in self.metrics)}")
