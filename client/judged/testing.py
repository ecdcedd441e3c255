"""Assertions on results, for any test framework.

    from judged.testing import assert_metric, assert_rubric

    assert_metric(result, "ndcg@10", min_score=0.8)
    assert_rubric(scored, "faithfulness", min_score=0.8)

The pytest plugin in `pytest_plugin` adds a server and a table of the asserted means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judged._views import plural
from judged.errors import InvalidArgument
from judged.evaluation import AnswerEvaluation, EvaluationResult
from judged.values import MetricResult, RubricSummary, ScoredAnswers, Status

_ROUNDING = 1e-9
"""A mean printed equal to the threshold passes it."""
_SHOWN = 5
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Check:
    """One assertion: the metric or rubric, its threshold, and whether it passed."""

    metric: MetricResult | RubricSummary
    min_score: float
    passed: bool


checks: list[Check] = []
"""All assertions since the plugin last reported them; it then clears the list."""


def assert_metric(result: EvaluationResult, metric: str, *, min_score: float) -> MetricResult:
    """Return a metric of a result; raise AssertionError if its mean is below `min_score`.

    If verdicts are missing, the lower bound is compared instead: the mean if all of them were
    wrong. Queries on which the retriever failed count as 0. Raises InvalidArgument for a metric
    that the result does not have.
    """
    __tracebackhide__ = True
    if metric not in result.table:
        known = ", ".join(one.name for one in result.table.metrics)
        raise InvalidArgument.of_field("metric", f"the result has no {metric}; it has {known}")
    found = result[metric]
    over, worst = plural(found.n, "query", "queries"), found.mean
    if found.lower_bound is not None:
        over, worst = f"{over}, missing verdicts counted as wrong", found.lower_bound
    if failed := result.failures:
        counts = result.table.counts
        n = counts.evaluated + counts.skipped_unsettled
        over += f" and {len(failed)} on which the retriever failed, counted as 0"
        worst = (worst or 0.0) * n / (n + len(failed))
    texts = {query.query_id: query.query for query in result.queries}
    values = sorted(zip(found.per_query, result.table.query_ids, strict=False))
    lines = [_line("failed", *failure) for failure in failed.items()]
    lines += [_line(f"{value:.4f}", name, texts.get(name, "")) for value, name in values]
    lines = lines[:_SHOWN]
    lines += [f"  warning: {warning}" for warning in result.warnings]
    _hold(found, metric, worst, over, min_score, lines)
    return found


def assert_rubric(
    scored: ScoredAnswers | AnswerEvaluation, rubric: str, *, min_score: float
) -> RubricSummary:
    """Return the summary of a rubric; raise AssertionError if its mean is below `min_score`.

    Missing scores count as 0, and so do questions that the system failed on. Items that can't be
    assessed, such as an empty answer, are left out. Raises InvalidArgument for a rubric by which
    nothing was scored.
    """
    __tracebackhide__ = True
    known = [summary.rubric for summary in scored.rubrics]
    if rubric not in known:
        rule = f"nothing was scored by {rubric}, but by {', '.join(known)}"
        raise InvalidArgument.of_field("rubric", rule)
    found = scored.summary(rubric)
    failed: list[str] = []
    scores = list(scored) if isinstance(scored, ScoredAnswers) else []
    if isinstance(scored, AnswerEvaluation):
        scores = [score for item in scored.items for score in item.scores.values()]
        failed = [_line("failed", i.question.item_id, i.failure or "") for i in scored.failures]
    counts = found.counts
    n = counts.ok + counts.error + counts.abstained + len(failed)
    worst = (found.mean or 0.0) * counts.ok / n if n else None
    over = f"{n} answers"
    if counts.ok < n:
        over += f", {n - counts.ok} of them missing and counted as 0"
    counted = (s for s in scores if s.rubric == rubric and s.status is not Status.NOT_ASSESSABLE)
    lines = [
        _line(
            score.status.name.lower() if score.score is None else f"{score.score:.4f}",
            score.item_id,
            score.reasoning if score.error is None else score.error.message,
        )
        for score in sorted(counted, key=lambda score: (score.score or 0.0, score.item_id))
    ]
    _hold(found, rubric, worst, over, min_score, [*failed, *lines][:_SHOWN])
    return found


def _hold(
    of: MetricResult | RubricSummary,
    name: str,
    worst: float | None,
    over: str,
    min_score: float,
    lines: Sequence[str],
) -> None:
    """Record an assertion. Raises AssertionError, with the lines, if it fails."""
    __tracebackhide__ = True
    passed = worst is not None and worst + _ROUNDING >= min_score
    checks.append(Check(of, min_score, passed))
    if not passed:
        problem = f"{name} has no mean over {over}"
        if worst is not None:
            below = f"{min_score - worst:.4f} below min_score={min_score:g}"
            problem = f"{name} is {worst:.4f} over {over}, {below}"
        raise AssertionError("\n".join([problem, *lines]))


def _line(value: str, name: str, text: str) -> str:
    return f"  {value}  {name}  {' '.join(text.split())[:_SHOWN_CHARACTERS]}".rstrip()
