"""The functions of `judged.evaluation` that ask a server, for an AsyncClient.

The same names with the same arguments, to be awaited. `AsyncEvaluator` is the Evaluator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from judged.aio import AsyncClient
from judged.evaluation._steps.walking import await_steps, need_async_client
from judged.evaluation.answers.answer_evaluation import (
    AnswerEvaluation,
    AnswerRun,
    Progress,
    ScoreTrace,
)
from judged.evaluation.answers.ranking import (
    RUBRIC,
    AnswerPairs,
    CandidateAnswer,
    ComparedAnswers,
    comparing_steps,
)
from judged.evaluation.answers.score_panel import Combine, PanelScores, panel_steps
from judged.evaluation.answers.similarity import AnswerSimilarity, similarity_steps
from judged.evaluation.system import Question, System
from judged.values import AnswerItem, Asking, IntervalOptions, Judge, Rubric, TextItem

__all__ = ["answer_similarity", "compare_answers", "evaluate_answers", "score_by_panel"]


async def answer_similarity(
    items: Sequence[TextItem],
    negatives: Sequence[Sequence[str]] = (),
    *,
    client: AsyncClient,
    judge: Judge | str = "semantic",
    interval: IntervalOptions | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the calls' deadline
) -> AnswerSimilarity:
    """Return how close answers are to their references; see evaluation.answer_similarity."""
    need_async_client(client)
    steps = similarity_steps(items, negatives, judge, interval, timeout)
    return await await_steps(client, steps)


async def compare_answers(
    answers: Iterable[CandidateAnswer],
    *,
    client: AsyncClient,
    rubric: Rubric | str = RUBRIC,
    interval: IntervalOptions | None = None,
    asking: Asking | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the calls' deadline
    progress: Callable[[int, int], object] | None = None,
) -> ComparedAnswers:
    """Return the ranking of systems by their answers; see evaluation.compare_answers."""
    need_async_client(client)
    pairs = AnswerPairs(answers)
    steps = comparing_steps(pairs, rubric, interval, asking, timeout, progress)
    return await await_steps(client, steps)


async def evaluate_answers(
    items: Iterable[Question],
    system: System,
    rubrics: Iterable[Rubric | str],
    *,
    client: AsyncClient,
    resume: Path | str | None = None,
    concurrency: int = 4,
    asking: Asking | None = None,
    include_replies: bool = False,
    trace: ScoreTrace | None = None,
    system_models: str | Sequence[str] = (),
    strict: bool = False,
    timeout: float = 3600.0,  # noqa: ASYNC109 - sent to the server as the call's deadline
    progress: Progress | None = None,
) -> AnswerEvaluation:
    """Return a system's answers to questions and their scores; see evaluation.evaluate_answers.

    The system is asked on threads, or where it is a coroutine function, on a loop of its own.
    """
    need_async_client(client)
    run = AnswerRun(
        *(items, system, rubrics, resume, concurrency, asking, progress, system_models),
        strict=strict,
    )
    steps = run.steps(include_replies=include_replies, trace=trace, timeout=timeout)
    return await await_steps(client, steps)


async def score_by_panel(
    items: Iterable[AnswerItem],
    rubrics: Iterable[Rubric | str],
    models: Sequence[str],
    *,
    client: AsyncClient,
    combine: Combine | str = Combine.MEAN,
    include_replies: bool = False,
    asking: Asking | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 - sent to the server as the calls' deadline
    progress: Callable[[int, int], object] | None = None,
) -> PanelScores:
    """Return the scores of answers by a panel of models; see evaluation.score_by_panel."""
    need_async_client(client)
    steps = panel_steps(
        *(items, rubrics, models, combine, asking, timeout, progress),
        include_replies=include_replies,
    )
    return await await_steps(client, steps)
