"""Evaluation of a system's answers: scores by rubrics, rankings of systems, or similarity.

    from judged import Client
    from judged.evaluation import Question, evaluate_answers

    questions = [Question("q1", "what is RAG", references=["retrieval augmented generation"])]
    with Client() as client:
        found = evaluate_answers(questions, my_system, ["answer_match"], client=client)

- Scores come from `Client.score_answers`; `asking` has the file to resume from.
- Several systems' answers to the same queries are compared in pairs. A language model sees each
  pair in both orders, since models favour a position: ScoreAnswers by a rubric that shows `answer`
  and `other_answer`. Its preferences go to RankSystems.
- The judge `semantic` compares embeddings: the similarity of an answer is the best cosine over its
  references, or 0 if that is negative.
"""

from __future__ import annotations

import inspect
import math
from bisect import bisect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from itertools import pairwise, permutations
from operator import or_
from pathlib import Path
from typing import Any

from judged._batching.judging import Progress
from judged._batching.scoring import as_rubrics, summarise
from judged._files import Record
from judged._inputs import Given, as_list, need_list, no_utf8, refuse_below, set_fields
from judged._views import View, named_mean, plain
from judged.client import Client
from judged.errors import FailedPrecondition, InvalidArgument, WrongType
from judged.evaluation.asking import (
    Asked,
    Outcome,
    ResumeFile,
    is_async,
    judging_models,
    models_of,
    sha256_of,
    signature_of,
    warn_circular,
)
from judged.values import (
    AnswerItem,
    AnswerScore,
    Asking,
    CacheMode,
    Flag,
    IntervalOptions,
    Judge,
    JudgeIdentity,
    MetricOptions,
    MetricResult,
    PairedComparison,
    PerQueryValues,
    QueryGroup,
    Rubric,
    RubricSummary,
    ScoredAnswers,
    ServerInfo,
    Status,
    SystemRanking,
    TextItem,
    Usage,
)
from judged.values.scores import summary_of


@dataclass(frozen=True, slots=True)
class Question(Given):
    """One question to a system, with the references to measure its answer by.

    `item_id` must be unique; a whole number is converted to text. `contexts` are sources to answer
    from, for systems that take them; `references` are answers known to be right, which the system
    never sees.
    """

    item_id: str
    query: str
    references: Sequence[str] = ()
    contexts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A system's answer. `contexts` are the texts it used; None means those of the question.

    `metadata` is the system's own, and is kept unchanged.
    """

    text: str
    contexts: Sequence[str] | None = None
    metadata: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.contexts is not None:
            set_fields(self, contexts=as_list(self.contexts))


System = Callable[..., str | Answer] | Callable[..., Awaitable[str | Answer]]
"""A callable that answers a query. If it has a parameter `contexts`, it also gets the question's
sources."""


_PLACEHOLDER = Answer("an answer of the system")
_QUESTION = "Question(item_id, query, references, contexts)"


@dataclass(frozen=True, slots=True, repr=False)
class AnsweredQuestion(View):
    """One question with the answer and its scores by rubric.

    `answer` is None if the system failed; `failure` then says how, and there are no scores.
    `seconds` is the time that the system took; `resumed` is True for an answer of an earlier run.
    """

    question: Question
    answer: Answer | None
    failure: str | None
    seconds: float
    scores: Mapping[str, AnswerScore]
    resumed: bool = False

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per score, or one row without a score if there are none."""
        shared = {
            "item_id": self.question.item_id,
            "query": self.question.query,
            "answer": None if self.answer is None else self.answer.text,
            "failure": self.failure,
            "seconds": self.seconds,
            "resumed": self.resumed,
        }
        rows = [row for score in self.scores.values() for row in score.to_rows()]
        rows = rows or [dict.fromkeys(AnswerScore("", "", Status.ERROR).to_rows()[0])]
        return [row | shared for row in rows]


@dataclass(frozen=True, slots=True, repr=False)
class AnswerEvaluation(View):
    """The questions in order, and a summary per rubric over the questions that were answered.

    Questions on which the system failed are in no mean: see `failures`. `usage` is the scoring's.
    """

    items: Sequence[AnsweredQuestion]
    rubrics: Sequence[RubricSummary]
    usage: Usage

    def __repr__(self) -> str:
        means = [named_mean(summary.rubric, summary.mean) for summary in self.rubrics]
        counts = f"{len(self.items)} questions", f"{len(self.failures)} failed"
        return f"AnswerEvaluation({', '.join([*counts, *means])})"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each score of each question, and one for each question without any."""
        return [row for item in self.items for row in item.to_rows()]

    @property
    def failures(self) -> list[AnsweredQuestion]:
        """The questions that the system did not answer."""
        return [item for item in self.items if item.failure is not None]

    def summary(self, rubric: str) -> RubricSummary:
        """Return the summary of a rubric by its id. Raises KeyError."""
        return summary_of(self.rubrics, rubric)


class AnswerLog(ResumeFile[Question]):
    """The resume file of answers: those of earlier runs by item id, and those of this one.

    Its `run` is the request_id of the scoring. It stays the same until all answers have scores, so
    that an interrupted scoring is not paid for twice. Raises FileError for answers of another
    system, or to another question with the same id.
    """

    id_field = "item_id"

    def __init__(self, path: Path | str | None, questions: Iterable[Question], system: str) -> None:
        self._questions = {question.item_id: question for question in questions}
        super().__init__(path, {"system": system})

    def take(self, record: Record) -> None:
        """Read a line of an earlier run."""
        item_id = record.identifier("item_id")
        question = self._questions.get(item_id)
        if question is None:
            return  # it belongs to a larger set of questions
        if record.text("question_sha256") != _digest(question):
            raise record.error(
                f"is the answer to another question than that of item {item_id!r}; remove the "
                "line, or name another file"
            )
        answer = record.read(Answer, metadata=record.fields_of("metadata"))
        seconds = record.optional_number("seconds") or 0.0
        self.known[item_id] = Outcome(question, answer, None, seconds)

    def append(self, outcome: Outcome[Question]) -> None:
        """Write an answer."""
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
    """Ask a system all questions, and return its answers and their scores by rubrics.

    `system` is called with the query, and with `contexts=` if it has such a parameter. It returns
    text or an Answer; contexts of the Answer, if any, replace the question's for scoring. A
    coroutine function runs on a separate event loop. At most `concurrency` questions are asked at
    once. An exception of the system is recorded as that question's failure.

    `resume` names a file that every answer is written to as it arrives: a later run asks only the
    questions without an answer there, and within 10 minutes of an interruption it pays for no score
    twice. `timeout` applies to the scoring. `progress` is called with (done, total), where each
    answer and each score counts as one. `system_models`, and an attribute `system_model` of the
    system, name the language models that answer: if one of their family scores, CircularJudging
    is warned.

    Raises InvalidArgument for invalid questions or rubrics, FileError for a file that belongs to
    other questions or can't be written, and what `Client.score_answers` raises. Errors that the
    server can find beforehand, such as an unknown rubric or model, come before the first question.
    """
    if not callable(system):
        raise WrongType.of_field("system", f"must be a function, not {type(system).__name__}")
    refuse_below(1, concurrency=concurrency)
    questions: list[Question] = list(need_list(items, "items", _QUESTION))
    scored_by = as_rubrics(rubrics)
    info = client.server_info()
    # Find what the server refuses before asking the system, which costs time and money.
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
            log.begin_run()  # scoring again is a new, paid run
    scores: dict[str, dict[str, AnswerScore]] = {}
    for score in found:
        scores.setdefault(score.item_id, {})[score.rubric] = score
    whole = []
    for question in questions:
        of = outcomes[question.item_id]
        scored = scores.get(question.item_id, {})
        one = AnsweredQuestion(question, of.result, of.failure_text, of.seconds, scored, of.resumed)
        whole.append(one)
    return AnswerEvaluation(whole, found.rubrics, found.usage)


def _check_models(
    info: ServerInfo,
    rubrics: Sequence[Rubric],
    asking: Asking | None,
    systems: Sequence[str],
) -> None:
    """Raise FailedPrecondition for an unavailable model; warn about models judging themselves."""
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
    warn_circular(systems, asked)


def _item(question: Question, answer: Answer) -> AnswerItem:
    contexts = question.contexts if answer.contexts is None else answer.contexts
    return AnswerItem(question.item_id, question.query, answer.text, question.references, contexts)


def _digest(question: Question) -> str:
    """Return the SHA-256 of what a system receives: the query and the sources."""
    return sha256_of([question.query, plain(question.contexts)])


def asked_of(system: System) -> Asked[Question]:
    """Return the call of a system; it gets the sources too if it has a parameter `contexts`."""
    known = None
    with suppress(TypeError, ValueError):  # some callables of C extensions have no signature
        known = inspect.signature(system).parameters.get("contexts")
    with_contexts = known is not None and known.kind is not inspect.Parameter.POSITIONAL_ONLY

    def ask(question: Question) -> Any:  # noqa: ANN401 - whatever the system returns
        given = {"contexts": question.contexts} if with_contexts else {}
        return system(question.query, **given)

    return Asked(ask, _as_answer, is_async(system))


def _as_answer(reply: object, _: Question) -> Answer:
    """Return a system's reply as an Answer. Raises TypeError and ValueError."""
    if inspect.iscoroutine(reply):
        reply.close()
        raise TypeError("the system returned a coroutine; make it an `async def`")
    answer = Answer(reply) if isinstance(reply, str) else reply
    if not isinstance(answer, Answer) or not isinstance(answer.text, str):
        raise TypeError(f"the system returned {type(reply).__name__}; return text or an Answer")
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


RUBRIC = "answer_preference"
METRIC = "semantic_similarity"


@dataclass(frozen=True, slots=True)
class CandidateAnswer(Given):
    """One system's answer to one query, with the texts that a rubric may show."""

    query_id: str
    system: str
    query: str
    answer: str
    references: Sequence[str] = ()
    contexts: Sequence[str] = ()


class AnswerPairs:
    """The pairs of answers to compare, in both orders.

    Raises InvalidArgument for a system that answers a query twice, for a query id with two
    queries, and if no query has answers of two systems.
    """

    def __init__(self, answers: Iterable[CandidateAnswer]) -> None:
        of_query: dict[str, dict[str, CandidateAnswer]] = {}
        for place, one in enumerate(answers):
            known = of_query.setdefault(one.query_id, {})
            rule = ""
            if one.system in known:
                rule = f"is a second answer of {one.system!r} to query {one.query_id!r}"
            elif any(other.query != one.query for other in known.values()):
                rule = f"has another query under the id {one.query_id!r} than an answer before it"
            if rule:
                raise InvalidArgument.of_field(f"answers[{place}]", rule)
            known[one.system] = one
        self.alone = [query_id for query_id, known in of_query.items() if len(known) == 1]
        """The queries that one system alone answered; nothing is compared with its answers."""
        self.items: list[AnswerItem] = []
        """The items to score: one for each order of each pair."""
        self._asked: list[PairedComparison] = []
        self._settled: list[PairedComparison] = []
        for known in of_query.values():
            for one, other in permutations(known.values(), 2):
                not_blank = bool(one.answer.strip()), bool(other.answer.strip())
                preference = 0.5 + 0.5 * (not_blank[0] - not_blank[1])
                pair = PairedComparison(one.query_id, one.system, other.system, preference)
                if not all(not_blank) or one.answer == other.answer:
                    self._settled.append(pair)
                    continue
                shown = (one.query, one.answer, one.references, one.contexts, other.answer)
                self.items.append(AnswerItem(str(len(self._asked)), *shown))
                self._asked.append(pair)
        if not self._asked and not self._settled:
            raise InvalidArgument.of_field(
                "answers", "hold no query that two systems answered, so there is nothing to compare"
            )

    def compared(self, scores: Sequence[AnswerScore]) -> tuple[list[PairedComparison], int]:
        """Return the comparisons that have an outcome, and how many have none.

        Raises InvalidArgument if none has an outcome.
        """
        found = self._settled + [
            replace(self._asked[int(score.item_id)], preference=score.score)
            for score in scores
            if score.score is not None
        ]
        missing = sum(score.score is None for score in scores)
        if not found:
            reasons = {score.error.reason for score in scores if score.error is not None}
            rule = f"none of {missing} comparisons has an outcome ({', '.join(sorted(reasons))})"
            raise InvalidArgument.of_field("answers", rule)
        return found, missing


@dataclass(frozen=True, slots=True)
class ComparedAnswers:
    """The ranking of systems, the comparisons that it is based on, and their scores.

    `missing` counts the comparisons without an outcome, which are left out; `alone` are the ids of
    queries that one system alone answered, which are left out too.
    """

    ranking: SystemRanking
    comparisons: Sequence[PairedComparison]
    scores: ScoredAnswers | None
    missing: int
    alone: Sequence[str] = ()


def compare_answers(
    answers: Iterable[CandidateAnswer] | AnswerPairs,
    *,
    client: Client,
    rubric: Rubric | str = RUBRIC,
    interval: IntervalOptions | None = None,
    asking: Asking | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
) -> ComparedAnswers:
    """Return the ranking of systems by their answers, each pair compared in both orders.

    An empty answer loses to any other, and equal answers tie, without a call. Comparisons without
    an outcome are left out. The systems' models are not known here: call
    `judged.evaluation.check_circular(info, Judge("answers"), models)` to be warned if one of them
    compares its own answers. Raises as `Client.score_answers` and `Client.rank_systems` do, and
    InvalidArgument if nothing has an outcome.
    """
    pairs = answers if isinstance(answers, AnswerPairs) else AnswerPairs(answers)
    scores: ScoredAnswers | None = None
    if pairs.items:
        scores = client.score_answers(
            pairs.items, [rubric], asking=asking, timeout=timeout, progress=progress
        )
    comparisons, missing = pairs.compared(scores or ())
    ranking = client.rank_systems(comparisons, interval, timeout=timeout)
    return ComparedAnswers(ranking, comparisons, scores, missing, pairs.alone)


@dataclass(frozen=True, slots=True)
class AnswerSimilarity:
    """The similarity of each answer, as a metric.

    `truncated` counts the answers of which only the beginning was compared, because a text is
    longer than the model's window. `unread` counts those compared by texts with words that the
    model does not know; if it knows none, the value is NaN, and `without_value` counts it.
    """

    metric: MetricResult
    truncated: int
    judge: JudgeIdentity
    unread: int = 0
    without_value: int = 0


def answer_similarity(
    items: Sequence[TextItem],
    *,
    client: Client,
    judge: Judge | str = "semantic",
    interval: IntervalOptions | None = None,
    timeout: float | None = None,
) -> AnswerSimilarity:
    """Return the similarity of answers to their references.

    Raises InvalidArgument for an item without references or a failed comparison, and what
    `Client.judge` and `Client.compute_metrics` raise.
    """
    given = list(items)
    for place, item in enumerate(given):
        if not item.references:
            raise InvalidArgument.of_field(f"items[{place}].references", "must not be empty")
    groups = [
        QueryGroup("", item.references, [item.hypothesis], str(place))
        for place, item in enumerate(given)
    ]
    verdicts = client.judge(groups, judge, timeout=timeout)
    unknown = {p for p, e in verdicts.errors.items() if e.reason == "UNSUPPORTED_TEXT"}
    for place in verdicts.errors.keys() - unknown:
        rule = f"could not be compared: {verdicts.errors[place].message}"
        raise InvalidArgument.of_field(f"items[{bisect(verdicts.offsets, place) - 1}]", rule)
    values: list[float] = []
    truncated = unread = 0
    for first, last in pairwise(verdicts.offsets):
        scores = [verdicts.score[place] for place in range(first, last) if place not in unknown]
        values.append(max(scores, default=math.nan))
        flags = Flag(reduce(or_, verdicts.flags[first:last]))
        truncated += Flag.TRUNCATED in flags
        unread += Flag.UNKNOWN_TOKENS in flags or len(scores) < last - first
    known = {str(place): value for place, value in enumerate(values) if not math.isnan(value)}
    [mean] = client.compute_metrics(
        [METRIC],
        PerQueryValues(list(known), [list(known.values())]),
        MetricOptions(per_query=True, interval=interval),
        timeout=timeout,
    )
    signature = f"{METRIC}|judge:{verdicts.judge.scoring_key[:8]}|v1"
    metric = replace(mean, signature=signature, per_query=values)
    missing = len(values) - len(known)
    return AnswerSimilarity(metric, truncated, verdicts.judge, unread, missing)
