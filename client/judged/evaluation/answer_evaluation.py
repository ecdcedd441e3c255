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
from typing import Any, Protocol

from judged._batching.judging import Progress
from judged._batching.scoring import as_rubrics, summarise
from judged._files import Record
from judged._inputs import Given, as_list, need_each, no_utf8, set_fields
from judged._views import View, named_mean, plain
from judged.errors import FailedPrecondition, WrongType
from judged.evaluation.asking import (
    Asked,
    Asker,
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
    RubricInfo,
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

    def __init__(self, path: Path | str | None, questions: Iterable[Question], system: str) -> None:
        self._questions = {question.item_id: question for question in questions}
        super().__init__(path, {"system": system})

    def id_of(self, item: Question) -> str:
        """Return the id of a question."""
        return item.item_id

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
        metadata = record.record("metadata")
        answer = record.read(Answer, metadata=dict(metadata.fields) if metadata else {})
        seconds = record.optional_number("seconds") or 0.0
        self.known[item_id] = Outcome(question, answer, None, seconds)

    def append(self, outcome: Outcome[Question]) -> None:
        """Write an answer down; a failure is not written, so that it is asked again."""
        answer: Answer | None = outcome.result
        if answer is not None:
            question, seconds = outcome.item, round(outcome.seconds, 6)
            known = {"item_id": question.item_id, "question_sha256": _digest(question)}
            self.write({**known, **asdict(answer), "seconds": seconds})


class AnswerRun:
    """One evaluation of answers: its questions, what came of them, and their scores.

    Raises InvalidArgument for what is wrong with what is given.
    """

    def __init__(
        self,
        items: Iterable[Question],
        system: System,
        rubrics: Iterable[Rubric | str],
        resume: Path | str | None,
        concurrency: int,
        progress: Progress | None,
    ) -> None:
        if not callable(system):
            raise WrongType.of_field("system", f"must be a function, not {type(system).__name__}")
        if concurrency < 1:
            raise ValueError("concurrency must be 1 or more")
        self._questions: list[Question] = need_each(items, "items", (Question,), _QUESTION)
        self.rubrics = as_rubrics(rubrics)
        self._system, self._resume, self._concurrency = system, resume, concurrency
        self._progress, self._done = progress, 0
        self._asker: Asker[Question] = Asker()
        self._log = AnswerLog(None, (), "")
        self._outcomes: dict[str, Outcome[Question]] = {}
        self._found = ScoredAnswers([], [summarise(each.id, []) for each in self.rubrics], Usage())

    @property
    def unanswered(self) -> list[AnswerItem]:
        """What the server is asked an estimate of: it then tells what it would refuse."""
        return [_item(question, _PLACEHOLDER) for question in self._questions]

    def check(
        self,
        info: ServerInfo,
        asking: Asking | None,
        system_models: str | Sequence[str],
        *,
        strict: bool,
    ) -> None:
        """Refuse what can't be scored by this server; tell of models that would judge themselves.

        Before the system is asked anything: its answers cost time and money.
        """
        asked = list(judging_models(info, self.rubrics))
        cached = asking is not None and asking.cache is CacheMode.ONLY
        for model in () if cached else asked:
            if model.unavailable:
                raise FailedPrecondition(
                    f"language model {model.name!r} can't be asked: {model.unavailable}",
                    code="FAILED_PRECONDITION",
                    reason="PROVIDER_NOT_CONFIGURED",
                    metadata={"model": model.name},
                )
        tell_circular(models_of(self._system, system_models), asked, "rubrics", strict=strict)

    def ask(self) -> None:
        """Ask the system; may take long. What an earlier run kept is not asked again."""
        self._log = AnswerLog(self._resume, self._questions, signature_of(self._system))
        asked = asked_of(self._system)
        outcomes = self._log.outcomes(
            *(self._questions, self._asker),
            lambda left: self._asker.outcomes(asked, left, self._concurrency),
        )
        for outcome in outcomes:
            self._outcomes[outcome.item.item_id] = outcome
            self.count(1 if outcome.failure is None else 1 + len(self.rubrics))

    def stop(self) -> None:
        """Ask no more."""
        self._asker.stop()

    @property
    def answered(self) -> list[AnswerItem]:
        """What is to be scored."""
        outcomes = (self._outcomes[question.item_id] for question in self._questions)
        return [_item(each.item, each.result) for each in outcomes if each.failure is None]

    @property
    def request_id(self) -> str:
        """The request_id under which no score is paid twice."""
        return self._log.run

    def take(self, found: ScoredAnswers, info: ServerInfo, trace: ScoreTrace | None) -> None:
        """Take the scores, and keep them in a trace."""
        self._found = found
        if all(score.status is not Status.ERROR for score in found):
            self._log.begin_run()  # to score them again is to pay again
        if trace is not None:
            trace.keep_scores(self.answered, found.scores, info.rubrics)

    def evaluation(self) -> AnswerEvaluation:
        """Return the whole."""
        scores: dict[str, dict[str, AnswerScore]] = {}
        for score in self._found:
            scores.setdefault(score.item_id, {})[score.rubric] = score
        items = []
        for question in self._questions:
            of = self._outcomes[question.item_id]
            told = (of.result, of.told, of.seconds, scores.get(question.item_id, {}), of.resumed)
            items.append(AnsweredQuestion(question, *told))
        return AnswerEvaluation(items, self._found.rubrics, self._found.usage)

    def count(self, n: int = 1) -> None:
        """Count answers and scores, for `progress`."""
        self._done += n
        if self._progress is not None:
            self._progress(self._done, len(self._questions) * (1 + len(self.rubrics)))


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
