"""Evaluation of systems that answer questions: ask, then score what was said.

    from judged import Client
    from judged.evaluation import Question, evaluate_answers

    questions = [Question("q1", "what is RAG", references=["retrieval augmented generation"])]
    with Client() as client:
        found = evaluate_answers(questions, my_system, ["answer_match"], client=client)

What is refused at once, the asking and the file to go on from are in `_steps`; the scores are those
of `Client.score_answers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from judged._batching.scoring import as_rubrics, summarise
from judged._inputs import need_kind
from judged._views import View, named_mean
from judged.client import Client
from judged.errors import WrongType
from judged.evaluation._steps.answer_log import AnswerLog
from judged.evaluation._steps.answering import Answering, Outcome
from judged.evaluation._steps.first_checks import ask_server, check_questions
from judged.evaluation._steps.walking import OnThread, Steps, need_client, run_steps
from judged.evaluation.circular_judging import models_of, scoring_models, tell_circular
from judged.evaluation.system import Answer, Question, System, signature_of
from judged.values import (
    AnswerItem,
    AnswerScore,
    Asking,
    Rubric,
    RubricInfo,
    RubricSummary,
    ScoredAnswers,
    Status,
    Usage,
)
from judged.values.scores import summary_of

Progress = Callable[[int, int], object]


class ScoreTrace(Protocol):
    """Where scores are kept beside what they are about; `judged.traces.TraceFile` is one."""

    def keep_scores(
        self,
        items: Sequence[AnswerItem],
        scores: Sequence[AnswerScore],
        rubrics: Sequence[RubricInfo],
    ) -> None:
        """Keep the scores of items; `rubrics` are those of the server that gave them."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class AnsweredQuestion(View):
    """One question with the answer and its scores by rubric.

    `answer` is None when the system failed; `failure` then says how, and there are no scores.
    `seconds` is what the system took; `resumed` says that the answer is that of an earlier run.
    """

    question: Question
    answer: Answer | None
    failure: str | None
    seconds: float
    scores: Mapping[str, AnswerScore]
    resumed: bool = False

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a score, or one without a score where there is none."""
        told = {
            "item_id": self.question.item_id,
            "query": self.question.query,
            "answer": None if self.answer is None else self.answer.text,
            "failure": self.failure,
            "seconds": self.seconds,
            "resumed": self.resumed,
        }
        rows = [row for score in self.scores.values() for row in score.to_rows()]
        if not rows:
            rows = [dict.fromkeys(AnswerScore("", "", Status.ERROR).to_rows()[0])]
        return [row | told for row in rows]


@dataclass(frozen=True, slots=True, repr=False)
class AnswerEvaluation(View):
    """The questions in order, and a summary a rubric, over the questions that were answered.

    A question whose system failed has no part in any mean: look at `failures` beside them.
    `usage` is what the scoring took; what the system took, it alone knows.
    """

    items: Sequence[AnsweredQuestion]
    rubrics: Sequence[RubricSummary]
    usage: Usage

    def __repr__(self) -> str:
        means = [named_mean(summary.rubric, summary.mean) for summary in self.rubrics]
        counts = f"{len(self.items)} questions", f"{len(self.failures)} failed"
        return f"AnswerEvaluation({', '.join([*counts, *means])})"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each score of each question, and one for each that has none."""
        return [row for item in self.items for row in item.to_rows()]

    @property
    def failures(self) -> list[AnsweredQuestion]:
        """The questions that the system did not answer."""
        return [item for item in self.items if item.failure is not None]

    def summary(self, rubric: str) -> RubricSummary:
        """Return the summary of a rubric by its id. Raises KeyError."""
        return summary_of(self.rubrics, rubric)


def evaluate_answers(
    items: Iterable[Question],
    system: System,
    rubrics: Iterable[Rubric | str],
    *,
    client: Client,
    resume: Path | str | None = None,
    concurrency: int = 4,
    asking: Asking | None = None,
    include_replies: bool = False,
    trace: ScoreTrace | None = None,
    system_models: str | Sequence[str] = (),
    strict: bool = False,
    timeout: float = 3600.0,
    progress: Progress | None = None,
) -> AnswerEvaluation:
    """Return what a system answered to questions, and the scores of its answers by rubrics.

    `system` is called with the query, and with `contexts=` when it has such a parameter; it returns
    text or an Answer, whose contexts, where it brings some, are those it is scored by. It may be a
    coroutine function, which then runs on an event loop of its own. At most `concurrency` questions
    are with it at once. An exception of the system is that question's failure.

    `resume` names a file that every answer is written to as it comes: a later run asks only what
    has no answer there, and within 10 minutes of an interruption pays for no score twice. `trace`,
    a `judged.traces.TraceFile`, keeps the scores as `judged score --trace` does, so that they can
    be had again without a model. `timeout` is about the scoring.
    `progress` is called with (done, in all), where each answer counts as one, and so does each
    score. `system_models`, and an attribute `system_model` of the system, name the language models
    that answer: where one of their family is to score, there is a warning, CircularJudging; with
    `strict`, InvalidArgument at `rubrics`.

    Raises InvalidArgument for questions or rubrics that are wrong, FileError for a file that
    belongs to other questions or can't be written, and what `Client.score_answers` raises: before
    the first question where the server can tell then, as of an unknown rubric or model.
    """
    need_client(client)
    run = AnswerRun(
        *(items, system, rubrics, resume, concurrency, asking, progress, system_models),
        strict=strict,
    )
    steps = run.steps(include_replies=include_replies, trace=trace, timeout=timeout)
    return run_steps(client, steps)


class AnswerRun:
    """One evaluation of answers. Raises InvalidArgument for what is wrong with what is given."""

    def __init__(
        self,
        items: Iterable[Question],
        system: System,
        rubrics: Iterable[Rubric | str],
        resume: Path | str | None,
        concurrency: int,
        asking: Asking | None,
        progress: Progress | None,
        system_models: str | Sequence[str],
        *,
        strict: bool,
    ) -> None:
        if isinstance(items, Question | str) or not isinstance(items, Iterable):
            need_kind(items, "items", list, "a list of questions")
        if not callable(system):
            raise WrongType.of_field("system", f"must be a function, not {type(system).__name__}")
        self._questions, self._rubrics = list(items), as_rubrics(rubrics)
        check_questions(self._questions, self._rubrics, concurrency)
        self._system, self._resume, self._asking = system, resume, asking
        self._models, self._strict = models_of(system, system_models), strict
        self._answering = Answering(system, concurrency)
        self._counter = _Counter(progress, len(self._questions) * (1 + len(self._rubrics)))

    def steps(
        self, *, include_replies: bool, trace: ScoreTrace | None, timeout: float
    ) -> Steps[AnswerEvaluation]:
        """Yield the steps of `evaluate_answers`."""
        rubrics, asking, count = self._rubrics, self._asking, self._counter.add
        info = yield from ask_server(self._questions[0], rubrics, asking)
        scoring = scoring_models(info, rubrics)
        tell_circular(self._models, scoring, "rubrics", strict=self._strict)
        try:
            outcomes, resumed, log = yield OnThread(self._ask)
        finally:
            self._answering.stop()  # who left the step does not want the rest
        told = [outcomes[question.item_id] for question in self._questions]
        answered = [_as_item(outcome) for outcome in told if outcome.answer is not None]
        found = ScoredAnswers([], [summarise(rubric.id, []) for rubric in rubrics], Usage())
        if answered:
            found = yield lambda client: client.score_answers(
                answered,
                rubrics,
                include_replies=include_replies,
                asking=asking,
                request_id="" if log is None else log.run,
                timeout=timeout,
                progress=lambda *_: count(1),
            )
            if log is not None and not any(score.status is Status.ERROR for score in found):
                log.scored()
            if trace is not None:
                trace.keep_scores(answered, found.scores, info.rubrics)
        scores = {(score.item_id, score.rubric): score for score in found}
        return AnswerEvaluation(
            [
                _result(outcome, rubrics, scores, outcome.question.item_id in resumed)
                for outcome in told
            ],
            found.rubrics,
            found.usage,
        )

    def _ask(self) -> tuple[dict[str, Outcome], set[str], AnswerLog | None]:
        """Return the outcome of each question, the ids of those of earlier runs, and their file."""
        log = None
        if self._resume is not None:
            log = AnswerLog(self._resume, self._questions, signature_of(self._system))
        with nullcontext() if log is None else closing(log):
            outcomes: dict[str, Outcome] = {}
            for question in self._questions:
                if log is not None and question.item_id in log.known:
                    answer, seconds = log.known[question.item_id]
                    outcomes[question.item_id] = Outcome(question, answer, None, seconds)
            resumed = set(outcomes)
            self._counter.add(len(resumed))
            waiting = [q for q in self._questions if q.item_id not in resumed]
            for outcome in _answers(self._answering, waiting, log):
                outcomes[outcome.question.item_id] = outcome
                self._counter.add(1 if outcome.answer is not None else 1 + len(self._rubrics))
        return outcomes, resumed, log


def _answers(
    answering: Answering, questions: Sequence[Question], log: AnswerLog | None
) -> Iterator[Outcome]:
    """Yield the outcome of each question, written down; what came before a break is not lost."""
    outcomes = answering.outcomes(questions)
    try:
        for outcome in outcomes:
            if log is not None:
                log.append(outcome)
            if outcome.failure is not None and not isinstance(outcome.failure, Exception):
                raise outcome.failure
            yield outcome
    finally:
        outcomes.close()
        for outcome in answering.leftover():
            if log is not None:
                log.append(outcome)


def _as_item(outcome: Outcome) -> AnswerItem:
    question, answer = outcome.question, outcome.answer or Answer("")
    contexts = question.contexts if answer.contexts is None else answer.contexts
    return AnswerItem(question.item_id, question.query, answer.text, question.references, contexts)


def _result(
    outcome: Outcome,
    rubrics: Sequence[Rubric],
    scores: Mapping[tuple[str, str], AnswerScore],
    resumed: bool,
) -> AnsweredQuestion:
    failure, item_id = outcome.failure, outcome.question.item_id
    pairs = [(item_id, rubric.id) for rubric in rubrics]
    return AnsweredQuestion(
        outcome.question,
        outcome.answer,
        None if failure is None else f"{type(failure).__name__}: {failure}",
        outcome.seconds,
        {pair[1]: scores[pair] for pair in pairs if pair in scores},
        resumed,
    )


class _Counter:
    """Counts what is done, for `progress`."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def add(self, n: int) -> None:
        if n and self._progress is not None:
            self._done += n
            self._progress(self._done, self._total)
