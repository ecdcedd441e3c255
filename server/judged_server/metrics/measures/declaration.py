"""What a metric is: a name, parameters with their rules, a definition, and a pure function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from judged_server.domain import FloatArray
from judged_server.metrics.input.rankings import Rankings
from judged_server.metrics.options import MatchingMode

ParameterValue = str | float
Parameters = Mapping[str, ParameterValue]
MetricFunction = Callable[[Rankings, Parameters, int | None], FloatArray]

ALL_MODES = tuple(MatchingMode)
PAIRED_MODES = (MatchingMode.GREEDY_FIRST, MatchingMode.MAXIMUM)
"""For metrics that would leave [0, 1] if two results could count for one expected text."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A parameter that is one of a few words."""

    name: str
    default: str
    choices: tuple[str, ...]
    description: str

    @property
    def rule(self) -> str:
        """What a value must be, in words."""
        return "one of " + ", ".join(self.choices)

    def read(self, text: str) -> str:
        """Return the value that `text` stands for. Raises ValueError when it breaks the rule."""
        if text not in self.choices:
            raise ValueError(self.rule)
        return text


@dataclass(frozen=True, slots=True)
class Number:
    """A parameter that is a finite number from `minimum` to `maximum`, both included."""

    name: str
    default: float
    minimum: float
    maximum: float
    description: str

    @property
    def rule(self) -> str:
        """What a value must be, in words."""
        return f"a number from {self.minimum:g} to {self.maximum:g}"

    def read(self, text: str) -> float:
        """Return the value that `text` stands for. Raises ValueError when it breaks the rule."""
        try:
            value = float(text)
        except ValueError:
            raise ValueError(self.rule) from None
        # The comparison refuses NaN too. float() takes more than people write: "1_0", "\u0663".
        if not self.minimum <= value <= self.maximum or "_" in text or not text.isascii():
            raise ValueError(self.rule)
        return value + 0.0  # -0.0 becomes 0.0, which prints one way


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    `function` takes rankings of n queries, a value for every parameter, and the cutoff k (None:
    the whole ranking), and returns float64[n], finite and in [0, 1]: 0 where nothing was
    retrieved and where there is nothing to find, but for `judged` and `rbp_residual`, which say
    how sure other metrics are. `modes` are the matching modes that define it; none, if verdicts
    do not. `version` goes up when a change of the function changes numbers. `family` is the name
    of the family (`families`) whose judge decides; empty when the request's does. `graded` metrics
    weigh gains, and so see those too that a relevance level takes as not relevant. `pooled` ones
    ask which documents were judged, which verdicts don't say.
    """

    name: str
    description: str
    reference: str
    function: MetricFunction
    parameters: tuple[Choice | Number, ...] = ()
    modes: tuple[MatchingMode, ...] = ALL_MODES
    version: int = 1
    family: str = ""
    graded: bool = False
    pooled: bool = False
