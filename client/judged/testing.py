"""Assertions on results, for tests of any framework.

    from judged.testing import assert_metric

    assert_metric(result, "ndcg@10", min_score=0.8)

The plugin for pytest in `pytest_plugin` brings a server and a table of what was asserted.
"""

from __future__ import annotations

from dataclasses import dataclass

from judged.errors import InvalidArgument
from judged.evaluation import EvaluationResult
from judged.types import MetricResult

_ROUNDING = 1e-9
"""A mean printed equal to the threshold passes it."""
_SHOWN_QUERIES = 5
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Check:
    """One assertion: the metric, what it was held against, and what for."""

    metric: MetricResult
    worst: float | None
    min_score: float
    passed: bool


checks: list[Check] = []
"""What was asserted; whoever shows it empties it."""


def assert_metric(result: EvaluationResult, metric: str, *, min_score: float) -> MetricResult:
    """Return a metric of a result; raise AssertionError where its mean is below `min_score`.

    Where verdicts are missing the lower bound is held against it: the mean if all of them were
    wrong. Raises InvalidArgument for a metric that the result does not have.
    """
    __tracebackhide__ = True
    if not isinstance(result, EvaluationResult):
        raise InvalidArgument.of_field(
            "result", f"must be an EvaluationResult, not {type(result).__name__}"
        )
    if metric not in result.table:
        known = ", ".join(one.name for one in result.table.metrics)
        raise InvalidArgument.of_field("metric", f"the result has no {metric}; it has {known}")
    found = result[metric]
    worst = found.mean if found.lower_bound is None else found.lower_bound
    passed = worst is not None and worst + _ROUNDING >= min_score
    checks.append(Check(found, worst, min_score, passed))
    if not passed:
        raise AssertionError(_message(result, found, worst, min_score))
    return found


def _message(
    result: EvaluationResult, found: MetricResult, worst: float | None, min_score: float
) -> str:
    if worst is None:
        return f"{found.name} has no mean: no query was evaluated; {_warned(result)}"
    interval = found.interval
    ends = "" if interval is None else f" [{interval.lower:.4f}, {interval.upper:.4f}]"
    value = f"{found.name} is {worst:.4f}{ends} over {found.n} queries"
    if found.lower_bound is not None:
        value = f"{found.name} may be as low as {worst:.4f}, since verdicts are missing"
    lines = [f"{value}, {min_score - worst:.4f} below min_score={min_score:g}"]
    texts = {query.query_id: query.query for query in result.queries}
    pairs = zip(result.table.query_ids, found.per_query, strict=False)
    for query_id, of_query in sorted(pairs, key=lambda pair: (pair[1], pair[0]))[:_SHOWN_QUERIES]:
        text = " ".join(texts.get(query_id, "").split())[:_SHOWN_CHARACTERS]
        lines.append(f"  {of_query:.4f}  {query_id}  {text}")
    return "\n".join([*lines, *(f"  warning: {warning}" for warning in result.warnings)])


def _warned(result: EvaluationResult) -> str:
    return "; ".join(result.warnings) or "the result has no warning"
