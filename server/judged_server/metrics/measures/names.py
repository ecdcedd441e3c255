"""Metric names as requests write them: `ndcg@10`, `ap(divisor=min)@100`, `precision`.

name       = metric [ "(" parameter { "," parameter } ")" ] [ "@" k ]
parameter  = word "=" value
k          = a whole number from 1 to MAX_CUTOFF; without it the whole ranking counts
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from judged_server.domain import FloatArray, ParameterScalar, need
from judged_server.errors import InvalidField, LimitExceeded, did_you_mean
from judged_server.metrics.input.rankings import Rankings
from judged_server.metrics.measures.formulas import METRICS, Metric, Parameters
from judged_server.metrics.text.metrics import TEXT_METRICS

MAX_METRICS = 100
"""The most metrics one request may ask for."""

MAX_CUTOFF = 1_000_000_000
"""The largest k; no ranking is that long, and beyond 2^53 a float could not hold it."""

_NAME = re.compile(r"(?P<metric>\w+)(?:\((?P<parameters>[^()]*)\))?(?:@(?P<k>.*))?", re.ASCII)
_PLAIN_NAME = re.compile(r"[A-Za-z][\w.-]{0,99}", re.ASCII)
_CUTOFF = re.compile(r"[1-9][0-9]{0,9}")
_LONGEST_NAME = 200

_ANOTHERS = re.compile(r"(?P<metric>\w+?)(_cut|_at)?(_(?P<k>[1-9][0-9]*))?", re.ASCII)
_ELSEWHERE = {
    "map": "ap",
    "average_precision": "ap",
    "mean_average_precision": "ap",
    "p": "precision",
    "set_p": "precision",
    "set_recall": "recall",
    "set_f": "f1",
    "success": "hit_rate",
    "recip_rank": "mrr",
    "reciprocal_rank": "mrr",
    "mean_reciprocal_rank": "mrr",
    "hit": "hit_rate",
    "rprec": "r_precision",
}
"""What other tools call a metric (small, without its cutoff), and its name."""

RUBRICS = {
    "faithfulness": "faithfulness",
    "groundedness": "faithfulness",
    "hallucination": "faithfulness",
    "answer_relevance": "answer_relevance",
    "answer_relevancy": "answer_relevance",
    "response_relevancy": "answer_relevance",
    "answer_match": "answer_match",
    "answer_correctness": "answer_match",
    "factual_correctness": "answer_match",
    "context_recall": "context_recall",
    "contextual_recall": "context_recall",
    "context_relevance": "context_relevance",
    "contextual_relevancy": "context_relevance",
    "answer_quality": "answer_quality",
    "harmlessness": "harmlessness",
    "helpfulness": "helpfulness",
}
"""What Ragas, DeepEval, TruLens and Phoenix score answers by, and the rubric that is asked here."""


class MetricNameError(ValueError):
    """A metric's name breaks a rule; the message is the rule, without the field's path."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A metric with every parameter settled and its cutoff; `str` is the canonical name.

    `judge` is the signature of the judge it is measured by, where that is not the request's.
    """

    metric: Metric
    parameters: Parameters
    k: int | None = None
    judge: str = ""

    def __str__(self) -> str:
        chosen = [
            f"{parameter.name}={write_value(self.parameters[parameter.name])}"
            for parameter in self.metric.parameters
            if self.parameters[parameter.name] != parameter.default
        ]
        brackets = f"({','.join(chosen)})" if chosen else ""
        return f"{self.metric.name}{brackets}{self._at_k}"

    @property
    def _at_k(self) -> str:
        return "" if self.k is None else f"@{self.k}"

    def values(self, rankings: Rankings) -> FloatArray:
        """Return the measure of each query: float64[n], finite, in [0, 1]."""
        return self.metric.function(rankings, self.parameters, self.k)

    def judged_by(self, signature: str) -> Measure:
        """Return the measure over verdicts of that judge; a family's metric can then be taken."""
        return replace(self, metric=replace(self.metric, family=""), judge=signature)

    def signature(self, settings: Sequence[tuple[str, str]]) -> str:
        """Return one stable line that says how the number is made.

        Name and cutoff, every parameter (defaults too, so that a later default can't change what
        an old line means), the `settings` the rankings were made under, the metric's version.
        """
        parameters = [
            f"{parameter.name}:{write_value(self.parameters[parameter.name])}"
            for parameter in self.metric.parameters
        ]
        made_under = [f"{name}:{value}" for name, value in settings]
        if self.judge:
            made_under.insert(0, "judge:" + self.judge.replace("|", " "))
        head, version = f"{self.metric.name}{self._at_k}", f"v{self.metric.version}"
        return "|".join([head, *parameters, *made_under, version])


def parse_metrics(
    names: Sequence[str], field: str = "metrics", *, of_values: bool = False
) -> tuple[Measure, ...]:
    """Return the measures that the names of a request stand for, in order.

    With `of_values`, where the request brings all values, a name may also be a plain word that no
    metric of ours has: a rubric's, or that of a text metric.

    Raises InvalidField at `field` when there is none, at `field[i]` when name i breaks a rule or
    names a measure again; LimitExceeded at `field` when there are more than MAX_METRICS.
    """
    need(len(names) > 0, field, "must name at least one metric, for example ndcg@10")
    if len(names) > MAX_METRICS:
        raise LimitExceeded(field, "metrics", MAX_METRICS, len(names))
    first_seen: dict[str, int] = {}
    measures = []
    for i, name in enumerate(names):
        try:
            plain = of_values and _PLAIN_NAME.fullmatch(name) and name not in METRICS
            measure = _brought(name) if plain else parse_measure(name)
        except MetricNameError as error:
            raise InvalidField(f"{field}[{i}]", str(error)) from None
        first = first_seen.setdefault(str(measure), i)
        if first != i:
            raise InvalidField(f"{field}[{i}]", f"is {measure} again, as in {field}[{first}]")
        measures.append(measure)
    return tuple(measures)


def write_value(value: ParameterScalar) -> str:
    """Return the text of a parameter: a word, or the shortest of a number: 0.5, 1, 1e-07."""
    return value if isinstance(value, str) else repr(value + 0.0).removesuffix(".0")


def _brought(name: str) -> Measure:
    """Return a measure of which the caller brings the values."""

    def unknown(_rankings: Rankings, _parameters: Parameters, _k: int | None) -> FloatArray:
        raise ValueError(f"{name} is measured elsewhere; only its values are known here")

    return Measure(Metric(name, "Values that the caller brings.", "", unknown, modes=()), {})


def parse_measure(name: str, metrics: Mapping[str, Metric] = METRICS) -> Measure:
    """Return the measure of one name. Raises MetricNameError with the rule the name breaks."""
    parts = _NAME.fullmatch(name) if len(name) <= _LONGEST_NAME else None
    if parts is None:
        raise MetricNameError(
            f"{name[:40]!r} is not a metric's name; write metric@k, or metric(parameter=value)@k"
        )
    metric = metrics.get(parts["metric"])
    if metric is None:
        raise MetricNameError(_unknown(parts["metric"], metrics))
    return Measure(metric, _read_parameters(metric, parts["parameters"]), _read_cutoff(parts["k"]))


def _read_cutoff(text: str | None) -> int | None:
    """Return k, or None when the name has none."""
    if text is None:
        return None
    if not _CUTOFF.fullmatch(text) or int(text) > MAX_CUTOFF:
        raise MetricNameError(f"k must be a whole number from 1 to {MAX_CUTOFF}, not {text[:40]!r}")
    return int(text)


def _read_parameters(metric: Metric, text: str | None) -> dict[str, ParameterScalar]:
    """Return a value for every parameter of the metric, in the order of their declaration."""
    given: dict[str, str] = {}
    for part in text.split(",") if text is not None else ():
        name, equals, value = part.partition("=")
        if not equals:
            raise MetricNameError(f"parameters are written name=value, not {part[:40]!r}")
        if name in given:
            raise MetricNameError(f"parameter {name} is given twice")
        given[name] = value
    values: dict[str, ParameterScalar] = {}
    for parameter in metric.parameters:
        written = given.pop(parameter.name, None)
        try:
            values[parameter.name] = (
                parameter.default if written is None else parameter.read(written)
            )
        except ValueError as error:
            raise MetricNameError(f"{parameter.name} must be {error}") from None
    for name in given:
        known = ", ".join(parameter.name for parameter in metric.parameters) or "none"
        raise MetricNameError(f"{metric.name} has no parameter {name[:40]!r}; it has {known}")
    return values


def _unknown(name: str, metrics: Mapping[str, Metric]) -> str:
    """Return what to say of a metric that does not exist."""
    said, lower = f"no metric is called {name[:40]!r}", name.lower()
    if lower in RUBRICS:
        rubric = RUBRICS[lower]
        return (
            f"{said}; the rubric {rubric} scores answers: call ScoreAnswers, or run judged score "
            f"--rubric {rubric}"
        )
    of_texts = next((known for known in TEXT_METRICS if known.lower() == lower), None)
    if of_texts is not None:
        return (
            f"{said}; {of_texts} measures answers: call ComputeTextMetrics, or run judged texts "
            f"-m {of_texts}"
        )
    hint = _as_elsewhere(lower, metrics) or did_you_mean(lower, metrics)
    return f"{said}{hint and '; '}{hint} (this server has {', '.join(metrics)})"


def _as_elsewhere(name: str, metrics: Mapping[str, Metric]) -> str:
    """Return the metric that other tools write so, with its cutoff; "" if none of them does."""
    parts = _ANOTHERS.fullmatch(name)
    if parts is None:
        return ""
    ours = _ELSEWHERE.get(parts["metric"], parts["metric"])
    if ours not in metrics:
        return ""
    return f"did you mean {ours}{'@' + parts['k'] if parts['k'] else ''}?"
