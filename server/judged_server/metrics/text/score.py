"""What a text metric says of one item."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Score:
    """The value of one item in [0, 1], and the precision and recall behind it where there are."""

    value: float
    precision: float | None = None
    recall: float | None = None


def best(scores: Iterable[Score]) -> Score:
    """Return the score with the largest value, the first of them if several have it."""
    return max(scores, key=lambda score: score.value)


def harmonic(precision: float, recall: float) -> Score:
    """Return the harmonic mean of precision and recall; 0 when both are 0."""
    total = precision + recall
    value = 2 * precision * recall / total if total > 0 else 0.0
    return Score(value, precision, recall)
