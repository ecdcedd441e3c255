"""What a text metric is: a name, a definition, the form of its tokens, and a pure function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judged_server.metrics.text.forms import Form
from judged_server.metrics.text.pace import Pace, Steps
from judged_server.metrics.text.score import Score
from judged_server.metrics.text.tokens import Tokens

TextMetricFunction = Callable[[Tokens, Sequence[Tokens], Pace], Steps[Score]]


@dataclass(frozen=True, slots=True)
class TextMetric:
    """One text metric.

    `function` takes the tokens of a hypothesis and of at least one reference and returns a score
    in [0, 1], with precision and recall if `has_parts`. `settings` say how, for the signature;
    `counts_references` puts the number of references there too, since all of them count together.
    `compares_all` marks the metric whose work is the product of both lengths. `version` goes up
    when a change of the function changes numbers.
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
    version: int = 1

    def signature(self, references: str) -> str:
        """Return one stable line that says how the number is made.

        `references` is the number of references of every item, "var" if it varies.
        """
        counted = f"nrefs:{references}|" if self.counts_references else ""
        return f"{self.name}|{counted}{self.settings}|v{self.version}"
