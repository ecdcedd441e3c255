"""Evaluation of systems that answer questions: ask, then score what was said.

    from judged import Client
    from judged.evaluation import Question, evaluate_answers

    questions = [Question("q1", "what is RAG", references=["retrieval augmented generation"])]
    with Client() as client:
        found = evaluate_answers(questions, my_system, ["answer_match"], client=client)

The file to go on from is in `resuming`; the scores are those of `Client.score_answers`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from judged._batching.judging import Progress
from judged._batching.scoring import as_rubrics, summarise
from judged._files import Record
from judged._inputs import Given, as_list, need_list, no_utf8, set_fields
from judged._views import View, named_mean, plain
from judged.client import Client
from judged.errors import FailedPrecondition, WrongType
from judged.evaluation.asking import (
    Asked,
    Outcome,
    ResumeFile,
    is_async,
    judging_models,
    models_of,
    sha256_of,
    signature_of,
    tell_circular,
)
from judged.values import (
    AnswerItem,
    AnswerScore,
    Asking,
    CacheMode,
    Rubric,
    RubricSummary,
    ScoredAnswers,
    ServerInfo,
    Status,
    Usage,
)
from judged.values.scores import summary_of


@dataclass(frozen=True, slots=True)
class Question(Given):
    """One question to a system, and what its answer may be measured by.

    `item_id` must be unique; a whole number stands for its text. `contexts` are sources that the
    system is to answer from, if it takes any; `references` are answers known to be right, which it
    never sees.
    """

    item_id: str
    query: str
    references: Sequence[str] = ()
    contexts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a system said. `contexts` are the texts it used; None means those of the question.

    `metadata` is the system's own, and is kept as it is.
    """

    text: str
    contexts: Sequence[str] | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.contexts is not None:
            set_fields(self, contexts=as_list(self.contexts))


System = Callable[..., str | Answer] | Callable[..., Awaitable[str | Answer]]
"""Answers a query: anything that can be called with it. With a parameter called `contexts` it also
gets the question's sources."""


_PLACEHOLDER = Answer("an answer that is not there yet")
_QUESTION = "Question(item_id, query, references, contexts)"


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
        rows = rows or [dict.fromkeys(AnswerScore("", "", Status.ERROR).to_rows()[0])]
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


class AnswerLog(ResumeFile[Question]):
    """The answers of earlier runs by item id, and the place for those of this one.

    Under its `run` the answers are scored. It stays the same until all have their scores, so that a
    scoring that broke is not paid for twice. Raises FileError for the answers of another system,
    and to another question under the same id.
    """

    id_field = "item_id"

    def __init__(self, path: Path | str | None, questions: Iterable[Question], system: str) -> None:
        self._questions = {question.item_id: question for question in questions}
        super().__init__(path, {"system": system})

    def take(self, record: Record) -> None:
        """Take a line of an earlier run."""
        item_id = record.identifier("item_id")
        question = self._questions.get(item_id)
        if question is None:
            return  # of a larger set of questions
        if record.text("question_sha256") != _digest(question):
            raise record.error(
                f"is the answer to another question than that of item {item_id!r}; remove the "
                "line, or name another file"
            )
        answer = record.read(Answer, metadata=record.fields_of("metadata"))
        seconds = record.optional_number("seconds") or 0.0
        self.known[item_id] = Outcome(question, answer, None, seconds)

    def append(self, outcome: Outcome[Question]) -> None:
        """Write an answer down."""
        question, seconds = outcome.item, round(outcome.seconds, 6)
        known = {"item_id": question.item_id, "question_sha256": _digest(question)}
        self.write({**known, **asdict(outcome.result), "seconds": seconds})


def evaluate_answers(
    items: Iterable[Question],
    system: System,
    rubrics: Iterable[Rubric | str],
    *,
    client: Client,
    resume: Path | str | None = None,
    concurrency: int = 4,
    asking: Asking | None = None,
    system_models: str | Sequence[str] = (),
    timeout: float = 3600.0,
    progress: Progress | None = None,
) -> AnswerEvaluation:
    """Return what a system answered to questions, and the scores of its answers by rubrics.

    `system` is called with the query, and with `contexts=` when it has such a parameter; it returns
    text or an Answer, whose contexts, where it brings some, are those it is scored by. It may be a
    coroutine function, which then runs on an event loop of its own. At most `concurrency` questions
    are with it at once. An exception of the system is that question's failure.

    `resume` names a file that every answer is written to as it comes: a later run asks only what
    has no answer there, and within 10 minutes of an interruption pays for no score twice.
    `timeout` is about the scoring.
    `progress` is called with (done, in all), where each answer counts as one, and so does each
    score. `system_models`, and an attribute `system_model` of the system, name the language models
    that answer: where one of their family is to score, there is a warning, CircularJudging.

    Raises InvalidArgument for questions or rubrics that are wrong, FileError for a file that
    belongs to other questions or can't be written, and what `Client.score_answers` raises: before
    the first question where the server can tell then, as of an unknown rubric or model.
    """
    if not callable(system):
        raise WrongType.of_field("system", f"must be a function, not {type(system).__name__}")
    if concurrency < 1:
        raise ValueError("concurrency must be 1 or more")
    questions: list[Question] = list(need_list(items, "items", _QUESTION))
    scored_by = as_rubrics(rubrics)
    info = client.server_info()
    # What the server would refuse is known before the system is asked: that costs time and money.
    unanswered = [_item(question, _PLACEHOLDER) for question in questions]
    client.estimate_scores(unanswered, scored_by, asking=asking)
    _check_models(info, scored_by, asking, models_of(system, system_models))
    done = 0

    def count(n: int = 1) -> None:
        nonlocal done
        done += n
        if progress is not None:
            progress(done, len(questions) * (1 + len(scored_by)))

    log = AnswerLog(resume, questions, signature_of(system))
    outcomes: dict[str, Outcome[Question]] = {}
    for outcome in log.outcomes(questions, asked_of(system), concurrency):
        outcomes[outcome.item.item_id] = outcome
        count(1 if outcome.failure is None else 1 + len(scored_by))
    answered = [
        _item(question, outcome.result)
        for question in questions
        if (outcome := outcomes[question.item_id]).failure is None
    ]
    found = ScoredAnswers([], [summarise(each.id, []) for each in scored_by], Usage())
    if answered:
        found = client.score_answers(
            answered,
            scored_by,
            asking=asking,
            request_id=log.run,
            timeout=timeout,
            progress=lambda *_: count(),
        )
        if all(score.status is not Status.ERROR for score in found):
            log.begin_run()  # to score them again is to pay again
    scores: dict[str, dict[str, AnswerScore]] = {}
    for score in found:
        scores.setdefault(score.item_id, {})[score.rubric] = score
    whole = []
    for question in questions:
        of = outcomes[question.item_id]
        told = (of.result, of.told, of.seconds, scores.get(question.item_id, {}), of.resumed)
        whole.append(AnsweredQuestion(question, *told))
    return AnswerEvaluation(whole, found.rubrics, found.usage)


def _check_models(
    info: ServerInfo,
    rubrics: Sequence[Rubric],
    asking: Asking | None,
    systems: Sequence[str],
) -> None:
    """Refuse models that can't be asked; tell of those that would judge themselves."""
    asked = list(judging_models(info, rubrics))
    cached = asking is not None and asking.cache is CacheMode.ONLY
    for model in () if cached else asked:
        if model.unavailable:
            raise FailedPrecondition(
                f"language model {model.name!r} can't be asked: {model.unavailable}",
                code="FAILED_PRECONDITION",
                reason="PROVIDER_NOT_CONFIGURED",
                metadata={"model": model.name},
            )
    tell_circular(systems, asked)


def _item(question: Question, answer: Answer) -> AnswerItem:
    contexts = question.contexts if answer.contexts is None else answer.contexts
    return AnswerItem(question.item_id, question.query, answer.text, question.references, contexts)


def _digest(question: Question) -> str:
    """Return the SHA-256 of what a system is asked: the query and the sources."""
    return sha256_of([question.query, plain(question.contexts)])


def asked_of(system: System) -> Asked[Question]:
    """Return how a system is asked; with a parameter called `contexts` it also gets the sources."""
    known = None
    with suppress(TypeError, ValueError):  # some callables of extensions have no signature
        known = inspect.signature(system).parameters.get("contexts")
    with_contexts = known is not None and known.kind is not inspect.Parameter.POSITIONAL_ONLY

    def ask(question: Question) -> Any:  # noqa: ANN401 - whatever the system returns
        given = {"contexts": question.contexts} if with_contexts else {}
        return system(question.query, **given)

    return Asked(ask, _as_answer, is_async(system))


def _as_answer(said: object, _: Question) -> Answer:
    """Return what a system said as an Answer. Raises TypeError and ValueError."""
    if inspect.iscoroutine(said):
        said.close()
        raise TypeError("the system returned a coroutine; make it an `async def`")
    answer = Answer(said) if isinstance(said, str) else said
    if not isinstance(answer, Answer) or not isinstance(answer.text, str):
        raise TypeError(f"the system returned {type(said).__name__}; return text or an Answer")
    if isinstance(answer.contexts, str):
        raise TypeError("the contexts of an Answer must be a list of texts, not one text")
    for text in (answer.text, *(answer.contexts or ())):
        if not isinstance(text, str):
            raise TypeError(f"the contexts of an Answer hold {type(text).__name__}; give texts")
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            raise ValueError(f"the text that the system returned {no_utf8(problem)}") from None
    return answer
