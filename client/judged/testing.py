"""Assertions on results, for tests of any framework.

    from judged.testing import assert_metric, assert_rubric

    assert_metric(result, "ndcg@10", min_score=0.8)
    assert_rubric(scored, "faithfulness", min_score=0.8)

The plugin for pytest in `pytest_plugin` brings a server and a table of what was asserted.
"""

from __future__ import annotations

from dataclasses import dataclass

from judged.errors import InvalidArgument, WrongType
from judged.evaluation import AnswerEvaluation, EvaluationResult
from judged.values import AnswerScore, MetricResult, RubricSummary, ScoredAnswers, Status

_ROUNDING = 1e-9
"""A mean printed equal to the threshold passes it."""
_SHOWN_QUERIES = 5
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Check:
    """One assertion: the metric or rubric, and what it was held to."""

    metric: MetricResult | RubricSummary
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
        rule = f"must be an EvaluationResult, not {type(result).__name__}"
        if isinstance(result, AnswerEvaluation | ScoredAnswers):
            rule += "; assert_rubric is for scores of answers"
        raise WrongType.of_field("result", rule)
    if metric not in result.table:
        known = ", ".join(one.name for one in result.table.metrics)
        raise InvalidArgument.of_field("metric", f"the result has no {metric}; it has {known}")
    found = result[metric]
    worst = found.mean if found.lower_bound is None else found.lower_bound
    passed = worst is not None and worst + _ROUNDING >= min_score
    checks.append(Check(found, min_score, passed))
    if not passed:
        raise AssertionError(_message(result, found, worst, min_score))
    return found


def assert_rubric(
    scored: ScoredAnswers | AnswerEvaluation, rubric: str, *, min_score: float
) -> RubricSummary:
    """Return the summary of a rubric; raise AssertionError where its mean is below `min_score`.

    Scores that are missing count as 0, and so do questions that the system failed on. What can't be
    assessed, such as an empty answer, has no part. Raises InvalidArgument for a rubric by which
    nothing was scored.
    """
    __tracebackhide__ = True
    if not isinstance(scored, AnswerEvaluation | ScoredAnswers):
        rule = f"must be ScoredAnswers or an AnswerEvaluation, not {type(scored).__name__}"
        raise WrongType.of_field("scored", rule)
    known = [summary.rubric for summary in scored.rubrics]
    if rubric not in known:
        rule = f"nothing was scored by {rubric}, but by {', '.join(known)}"
        raise InvalidArgument.of_field("rubric", rule)
    found = scored.summary(rubric)
    failed: list[str] = []
    scores = list(scored) if isinstance(scored, ScoredAnswers) else []
    if isinstance(scored, AnswerEvaluation):
        scores = [score for item in scored.items for score in item.scores.values()]
        failed = [f"{item.question.item_id}  {item.failure}" for item in scored.failures]
    counts = found.counts
    n = counts.ok + counts.error + counts.abstained + len(failed)
    worst = (found.mean or 0.0) * counts.ok / n if n else None
    passed = worst is not None and worst + _ROUNDING >= min_score
    checks.append(Check(found, min_score, passed))
    if passed:
        return found
    if worst is None:
        raise AssertionError(f"{rubric} has no mean: none of {counts.total} answers was assessable")
    told = f"{rubric} is {worst:.4f} over {n} answers"
    if counts.ok < n:
        told += f", {n - counts.ok} of them missing and counted as 0"
    worst_first = sorted(
        (score for score in scores if score.rubric == rubric and _counts(score)),
        key=lambda score: (score.score or 0.0, score.item_id),
    )
    lines = [*(f"  failed  {text}" for text in failed), *map(_score_line, worst_first)]
    below = f"{told}, {min_score - worst:.4f} below min_score={min_score:g}"
    raise AssertionError("\n".join([below, *lines[:_SHOWN_QUERIES]]))


def _counts(score: AnswerScore) -> bool:
    return score.status is not Status.NOT_ASSESSABLE


def _score_line(score: AnswerScore) -> str:
    shown = score.status.name.lower() if score.score is None else f"{score.score:.4f}"
    why = score.reasoning if score.error is None else score.error.message
    return f"  {shown}  {score.item_id}  {' '.join(why.split())[:_SHOWN_CHARACTERS]}".rstrip()


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
