"""The judge `llm`: a language model reads each context by a rubric, and its samples vote.

Below it, the contexts that are asked, their votes, and the columns these make.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from judged.values.choices import CacheMode, Flag, Source, Status
from judged.values.judges import JudgeIdentity, Usage
from judged.values.verdicts import VerdictSample

from judged_server.domain import (
    ByteArray,
    IntArray,
    JudgeSpec,
    Parameter,
    QueryGroup,
    ScoreColumns,
    VerdictDetail,
)
from judged_server.errors import InvalidField, ModelNotConfigured
from judged_server.judges.base import Caller, Judge, JudgeKind, Profile, size_of
from judged_server.judges.llm.scoring import (
    Answers,
    AskedRubric,
    SampleResult,
    raw_text,
    voted,
)
from judged_server.llm.budget.budgets import refuse_if_nothing_asked, unpriced
from judged_server.llm.caller import Answer, CallOptions, ModelCaller, nothing
from judged_server.llm.chat import (
    ChatModel,
    ParsedReply,
    check_api_keys,
    missing_key_fault,
)
from judged_server.llm.question import MAX_SAMPLES, PlannedCall, holds_reserved
from judged_server.llm.rubrics.rubric import EXPECTED_TEXT, Rubric
from judged_server.scheduling.concurrency import choose_class, fan_out, run_by_size

VERSION = 1
RUBRIC = "retrieval_match"
VOTES_ABOVE_ZERO = 3
"""Samples of a temperature above 0, where one alone may be chance."""

VOTE, LOGPROBS = "vote", "logprobs"
"""The values of the parameter scoring."""

MAX_IN_WORK = 256
"""Samples of one call that wait for the model at once; the model has limits of its own."""

NO_CONFIGURATION = (
    "name a provider and a model in a file and start the server with --llm-config FILE; "
    'see "Providers of language models" in the documentation'
)


MODEL = Parameter("model", "", "The language model; empty for the server's default.")
TEMPERATURE = Parameter("temperature", 0.0, "Chance in the model's choice of words.", 0.0, 2.0)


def samples_of(what: str) -> Parameter:
    """Return the parameter of how many samples vote on each of what is judged."""
    description = f"Votes on each {what}; 0 stands for 1 at temperature 0 and for 3 above."
    return Parameter("samples", 0, description, 0, MAX_SAMPLES)


class AskableModels(Protocol):
    """The language models of this server."""

    def get(self, name: str) -> ChatModel:
        """Return a model by name, "" for the default. Raises ModelNotConfigured."""
        ...


class LlmKind(JudgeKind):
    """Builds `llm` judges over the language models of this server, None if it has none."""

    kind = "llm"
    asks_models = True

    def __init__(
        self, models: AskableModels | None, rubrics: Mapping[str, Rubric], model_caller: ModelCaller
    ) -> None:
        self._models = models
        self._rubrics = {name: rubric for name, rubric in rubrics.items() if rubric.judges_contexts}
        self._rubric = RUBRIC if RUBRIC in self._rubrics else next(iter(self._rubrics))
        self._model_caller = model_caller

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """One profile; its parameters are the model, what it is asked, and how often."""
        parameters = (
            MODEL,
            Parameter(
                "rubric",
                self._rubric,
                "What the model is asked, by id, or by id@version.",
                choices=(
                    *self._rubrics,
                    *(f"{name}@{rubric.version}" for name, rubric in self._rubrics.items()),
                ),
            ),
            samples_of("context"),
            TEMPERATURE,
            Parameter("max_tokens", 256, "The longest reply.", 1, 32768),
            Parameter(
                "scoring",
                VOTE,
                "The score: a vote, or the probability of a yes, by one reply's log-probabilities.",
                choices=(VOTE, LOGPROBS),
            ),
        )
        description = "A language model says whether the texts match, by a rubric."
        return (Profile("", description, self._rubrics[self._rubric].min_score, parameters),)

    def build(self, spec: JudgeSpec) -> LlmJudge:
        """Return the judge.

        Raises ModelNotConfigured when there is no such model here, and InvalidField when it, or
        what else is asked for, can't be scored by log-probabilities. A model whose key is missing
        is refused when it would be asked: its kept replies can still be had.
        """
        given = spec.parameters
        name = str(given.get("model", ""))
        if self._models is None:
            raise ModelNotConfigured(name, NO_CONFIGURATION)
        temperature = float(given.get("temperature", 0.0))
        logprobs = given.get("scoring", VOTE) == LOGPROBS
        votes = VOTES_ABOVE_ZERO if temperature and not logprobs else 1
        samples = int(given.get("samples", 0)) or votes
        rubric = self._rubrics[str(given.get("rubric", self._rubric)).partition("@")[0]]
        min_score = rubric.min_score if spec.min_score is None else spec.min_score
        model = self._models.get(name)
        if logprobs:
            _check_logprobs(model, rubric, samples)
        # Where a reply is a score, the threshold says what is a yes.
        asked = AskedRubric(
            replace(rubric, min_score=min_score),
            model,
            samples,
            temperature,
            int(given.get("max_tokens", 256)),
            logprobs,
        )
        return LlmJudge(self._model_caller, asked, min_score)


def _check_logprobs(model: ChatModel, rubric: Rubric, samples: int) -> None:
    """Raise InvalidField, by its place in a spec, where log-probabilities can't make a score."""
    field = 'parameters["scoring"]'
    if not model.card.logprobs:
        raise InvalidField(
            field,
            f"{LOGPROBS} needs a model with logprobs = true in the server's --llm-config, and "
            f"{model.card.name} has not; ask its operator, or score by {VOTE}",
        )
    if rubric.form != "verdict":
        raise InvalidField(
            field, f"the rubric {rubric.id} asks for a score itself; score by {VOTE}"
        )
    if samples > 1:
        raise InvalidField(
            'parameters["samples"]', f"must be 1, or unset, where scoring is {LOGPROBS}"
        )


class LlmJudge(Judge):
    """Scores contexts by asking a language model."""

    def __init__(self, model_caller: ModelCaller, asked: AskedRubric, min_score: float) -> None:
        self._model_caller = model_caller
        self._asked = asked
        self.needs_expected = EXPECTED_TEXT in asked.rubric.fields
        parts = asked.signature_parts()
        if asked.logprobs:
            parts.append(("scoring", LOGPROBS))
        identity = JudgeIdentity.build(
            LlmKind.kind, "", min_score, parts, VERSION, asked.key_parts()
        )
        self.identity = replace(identity, max_grade=asked.rubric.max_grade)

    @property
    def priced(self) -> bool:
        """Whether the prices of all models that may answer are known."""
        return self._asked.priced

    @property
    def unavailable(self) -> str:
        """Why its model can't be asked, "" when it can."""
        fault = missing_key_fault(self._asked.model)
        return "" if fault is None else fault.message

    def check_api_keys(self, cache: CacheMode) -> None:
        """Raise ModelNotConfigured when a model may have to be asked and its key is missing."""
        check_api_keys(self._asked.model, cache)

    def planned_calls(self, groups: Sequence[QueryGroup]) -> Iterator[PlannedCall]:
        """Yield all that `judge` would ask of the groups."""
        contexts, _ = number_contexts(groups, with_expected=self.needs_expected)
        for context in contexts:
            fields = context.fields
            for number in range(self._asked.samples):
                yield PlannedCall(self._asked.model, self._asked.question(fields, number))

    async def judge(self, groups: Sequence[QueryGroup], caller: Caller) -> ScoreColumns:
        """Return the vote on each context, with what asking took; each distinct one is asked once.

        A call to the model gets no longer than the caller waits, so that what came in time is
        answered and the rest has the fault TIMEOUT. Cancelling it closes the calls under way.
        """
        self.check_api_keys(caller.cache)
        size = size_of(groups)
        if caller.cost_tracker.max_cost is not None and not self.priced:
            raise unpriced()
        call_options = CallOptions.of(
            caller.deadline, caller.cost_tracker, caller.cache, LlmKind.kind
        )
        asked = self._asked
        none = nothing(asked.model.card.prices)

        def prepare() -> tuple[list[TextContext], list[ContextVotes], IntArray]:
            contexts, places = number_contexts(groups, with_expected=self.needs_expected)
            all_votes = [ContextVotes(asked.samples, none, caller.wants_details) for _ in contexts]
            return contexts, all_votes, places

        contexts, all_votes, places = await run_by_size(size, prepare)

        async def sample(job: tuple[int, int]) -> None:
            place, number = job
            question = asked.question(contexts[place].fields, number)
            answer = await self._model_caller.ask(asked.model, question, call_options)
            all_votes[place].put(number, answer)

        choose_class(len(contexts) * asked.samples)
        jobs = (
            (place, number) for place in range(len(contexts)) for number in range(asked.samples)
        )
        await fan_out(sample, jobs, min(MAX_IN_WORK, len(contexts) * asked.samples))
        reasons = (
            parsed.reason for context_votes in all_votes for parsed in context_votes.parsed_replies
        )
        refuse_if_nothing_asked(call_options.cost_tracker, reasons)
        columns = await run_by_size(size, to_columns, all_votes, places, none)
        columns.flags = await run_by_size(size, flags_of, contexts, all_votes, places)
        # One reply is no vote: its probability decides alone, under whatever threshold.
        return replace(columns, majorities=None, agreements=None) if asked.logprobs else columns


class TextContext(NamedTuple):
    """The texts of one context, by the names that rubrics use."""

    query: str
    expected_text: str
    retrieved_text: str

    @property
    def fields(self) -> dict[str, str]:
        """The texts by their names."""
        query, expected, retrieved = self
        return {"query": query, "expected_text": expected, "retrieved_text": retrieved}


class ContextVotes(Answers):
    """The samples of one context."""

    __slots__ = ("_parsed",)

    def __init__(self, samples: int, nothing: Usage, keep_replies: bool) -> None:
        """Expect as many samples; `nothing` is the usage of no call at all."""
        super().__init__(nothing, keep_replies)
        self._parsed: list[ParsedReply | None] = [None] * samples

    def put(self, number: int, answer: Answer) -> None:
        """Note a sample by its number; the reply is kept for details only."""
        self._parsed[number] = answer.parsed
        self.note(number, answer)

    @property
    def parsed_replies(self) -> list[ParsedReply]:
        """All samples, in order. Raises RuntimeError when one was not put."""
        parsed_replies = [parsed for parsed in self._parsed if parsed is not None]
        if len(parsed_replies) < len(self._parsed):
            raise RuntimeError("a sample is missing")
        return parsed_replies

    def detail(self, index: int, vote: SampleResult) -> VerdictDetail:
        """Return how the verdict at `index` came about."""
        samples = tuple(
            VerdictSample(
                parsed.status,
                parsed.yes,
                parsed.score,
                parsed.reason or "",
                parsed.reasoning,
                raw_text(self.replies.get(number)),
                fallback=self.fallbacks.get(number, ""),
            )
            for number, parsed in enumerate(self.parsed_replies)
        )
        replies = (reply for _, reply in sorted(self.replies.items()) if reply is not None)
        answered = next(replies, None)
        return VerdictDetail(
            index,
            vote.reasoning,
            samples,
            self.usage,
            answered.model if answered else "",
            answered.system_fingerprint if answered else "",
        )


def number_contexts(
    groups: Sequence[QueryGroup], *, with_expected: bool = True
) -> tuple[list[TextContext], IntArray]:
    """Return the distinct contexts as they come, and for each context of the groups its number.

    Without `with_expected`, for rubrics that don't show it, the expected text tells none apart, and
    is empty.
    """
    numbers: dict[TextContext, int] = {}
    places = [
        numbers.setdefault(
            TextContext(group.query, expected if with_expected else "", retrieved), len(numbers)
        )
        for group in groups
        for retrieved in group.retrieved
        for expected in group.expected
    ]
    return list(numbers), np.array(places, np.int64)


def flags_of(
    contexts: Sequence[TextContext], all_votes: Sequence[ContextVotes], places: IntArray
) -> ByteArray | None:
    """Return what is to be said of each context: its texts, its model. None without any flag."""
    reserved = [any(map(holds_reserved, context)) for context in contexts]
    fallback = [bool(context_votes.fallbacks) for context_votes in all_votes]
    if not (any(reserved) or any(fallback)):
        return None
    bits = zip(reserved, fallback, strict=True)
    flags = [one * Flag.RESERVED_TOKENS | other * Flag.FALLBACK for one, other in bits]
    return np.array(flags, np.uint8)[places]


def to_columns(all_votes: Sequence[ContextVotes], places: IntArray, nothing: Usage) -> ScoreColumns:
    """Return the votes as columns; `places` says whose vote each context gets.

    `nothing` is the usage of no call at all: with a cost, or without when there is no price.
    """
    votes = [voted(context_votes.parsed_replies) for context_votes in all_votes]
    numbers = places.tolist()
    failed = [index for index, number in enumerate(numbers) if votes[number].status != Status.OK]
    sources = [context_votes.source for context_votes in all_votes]
    found = any(source is not Source.COMPUTED for source in sources)
    keeps = any(context_votes.keeps for context_votes in all_votes)

    def column(values: list[Any], kind: type[Any]) -> Any:  # noqa: ANN401 - as the type says
        each = np.array(values, kind)
        # Without a context that comes twice, the numbers are the places.
        return each if len(values) == len(numbers) else each[places]

    return ScoreColumns(
        column([vote.score for vote in votes], np.float64),
        column([vote.status for vote in votes], np.uint8) if failed else None,
        faults=tuple(
            replace(why, index=index)
            for index in failed
            if (why := votes[numbers[index]].fault) is not None
        ),
        majorities=column([vote.yes for vote in votes], np.bool_),
        agreements=column([vote.agreement for vote in votes], np.float64),
        details=tuple(
            all_votes[number].detail(index, votes[number])
            for index, number in enumerate(numbers if keeps else ())
        ),
        usage=sum((context_votes.usage for context_votes in all_votes), nothing),
        sources=column(sources, np.uint8) if found else None,
    )
