"""What a text metric is: a name, a definition, the form of its tokens, a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from judged_server.metrics.text.tokens import Form, Tokens


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


TextMetricFunction = Callable[[Tokens, Sequence[Tokens]], Score]


@dataclass(frozen=True, slots=True)
class TextMetric:
    """One text metric.

    `function` takes the tokens of a hypothesis and of at least one reference and returns a score
    in [0, 1], with precision and recall if `has_parts`. `settings` say how, for the signature;
    `counts_references` puts the number of references there too, since all of them count together.
    `compares_all` marks the metric whose work is the product of both lengths. `version` goes up
    when a change of the function changes numbers. `unread` returns the share of a text's letters
    that the tokens leave out, or do not part into words.
    """

    name: str
    description: str
    reference: str
    form: Form
    function: TextMetricFunction
    settings: str
    has_parts: bool = True
    counts_references: bool = False
    compares_all: bool = False
    unread: Callable[[str], float] = lambda _: 0.0
    version: int = 2

    def signature(self, references: str) -> str:
        """Return one stable line that says how the number is made.

        `references` is the number of references of every item, "var" if it varies.
        """
        counted = f"nrefs:{references}|" if self.counts_references else ""
        return f"{self.name}|{counted}{self.settings}|v{self.version}"
