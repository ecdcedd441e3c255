"""The judge `llm`: a language model judges each context by a rubric, and its samples vote."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from judged.values.choices import CacheMode, Flag
from judged.values.groups import VerdictDetail, VerdictSample
from judged.values.judges import JudgeIdentity, Usage

from judged_server.domain import (
    Group,
    IntArray,
    JudgeSpec,
    Parameter,
    ParameterScalar,
    ScoreColumns,
)
from judged_server.errors import ModelNotConfigured
from judged_server.judges.base import Caller, Judge, JudgeKind, Profile, size_of
from judged_server.judges.llm.scoring import (
    AskedRubric,
    Asking,
    SampleResult,
    Session,
    raw_text,
    voted,
)
from judged_server.llm.budgets import refuse_if_nothing_asked, unpriced
from judged_server.llm.caller import CallOptions, ModelCaller
from judged_server.llm.models import ChatModels, check_api_keys, missing_key_fault
from judged_server.llm.question import MAX_SAMPLES, PlannedCall, holds_reserved
from judged_server.llm.rubrics.rubric import CONTEXT_FIELDS, EXPECTED_TEXT, FieldValue, Rubric
from judged_server.scheduling.concurrency import choose_class, fan_out, run_by_size

VERSION = 1
RUBRIC = "retrieval_match"
VOTES_ABOVE_ZERO = 3
"""The default number of samples at a temperature above 0, where a single one is random."""

MAX_IN_WORK = 256
"""The most samples of one call that wait for the model at once; the model has its own limits."""

NO_CONFIGURATION = (
    "name a provider and a model in a file and start the server with --llm-config FILE; "
    'see "Providers of language models" in the documentation'
)


MODEL = Parameter("model", "", "The language model; empty for the server's default.")
TEMPERATURE = Parameter("temperature", 0.0, "Chance in the model's choice of words.", 0.0, 2.0)


def samples_of(what: str) -> Parameter:
    """Return the parameter for the number of samples that vote on each `what`."""
    description = f"Votes on each {what}; 0 stands for 1 at temperature 0 and for 3 above."
    return Parameter("samples", 0, description, 0, MAX_SAMPLES)


class LlmKind(JudgeKind):
    """Builds `llm` judges over the language models of this server, None if it has none."""

    kind = "llm"
    asks_models = True

    def __init__(
        self, models: ChatModels | None, rubrics: Mapping[str, Rubric], model_caller: ModelCaller
    ) -> None:
        self._models = models
        self._rubrics = {name: rubric for name, rubric in rubrics.items() if rubric.judges_contexts}
        self._model_caller = model_caller
        usual = RUBRIC if RUBRIC in self._rubrics else next(iter(self._rubrics))
        parameters = (
            MODEL,
            Parameter(
                "rubric",
                usual,
                "What the model is asked, by id, or by id@version.",
                choices=(
                    *self._rubrics,
                    *(f"{name}@{rubric.version}" for name, rubric in self._rubrics.items()),
                ),
            ),
            samples_of("context"),
            TEMPERATURE,
            Parameter("max_tokens", 256, "The longest reply.", 1, 32768),
        )
        description = "A language model says whether the texts match, by a rubric."
        self.profiles = (Profile("", description, self._rubrics[usual].min_score, parameters),)

    def build(self, spec: JudgeSpec) -> LlmJudge:
        """Return the judge.

        Raises ModelNotConfigured if the model is unknown here. A missing key is refused only when
        the model would be asked: its cached replies need no key.
        """
        given = spec.parameters
        rubric = self._rubrics[str(given["rubric"]).partition("@")[0]]
        min_score = rubric.min_score if spec.min_score is None else spec.min_score
        # If replies are scores, the threshold decides which of them are a yes.
        rubric = replace(rubric, min_score=min_score)
        asked = asked_rubric(self._models, rubric, given)
        return LlmJudge(self._model_caller, asked, min_score)


def asked_rubric(
    models: ChatModels | None, rubric: Rubric, given: Mapping[str, ParameterScalar]
) -> AskedRubric:
    """Return a rubric with its model and sampling, from a request's parameters, all of them set.

    Raises ModelNotConfigured if the model is unknown here.
    """
    name, temperature = str(given["model"]), float(given["temperature"])
    if models is None:
        raise ModelNotConfigured(name, NO_CONFIGURATION)
    samples = int(given["samples"]) or (VOTES_ABOVE_ZERO if temperature else 1)
    max_tokens = int(given["max_tokens"])
    return AskedRubric(rubric, models.get(name), samples, temperature, max_tokens)


class LlmJudge(Judge):
    """Scores contexts by asking a language model."""

    def __init__(self, model_caller: ModelCaller, asked: AskedRubric, min_score: float) -> None:
        self._model_caller = model_caller
        self._asked = asked
        self.needs_expected = EXPECTED_TEXT in asked.rubric.fields
        identity = JudgeIdentity.build(
            LlmKind.kind, "", min_score, asked.signature_parts(), VERSION, asked.key_parts()
        )
        self.identity = replace(identity, max_grade=asked.rubric.max_grade)
        self.priced = asked.priced
        fault = missing_key_fault(asked.model)
        self.unavailable = "" if fault is None else fault.message

    def check_api_keys(self, cache: CacheMode) -> None:
        """Raise ModelNotConfigured if a model may have to be asked and its key is missing."""
        check_api_keys(self._asked.model, cache)

    def planned_calls(self, groups: Sequence[Group]) -> Iterator[PlannedCall]:
        """Yield all model calls that `judge` would make for the groups."""
        contexts, _ = number_contexts(groups, with_expected=self.needs_expected)
        for fields in map(fields_of, contexts):
            for number in range(self._asked.samples):
                yield PlannedCall(self._asked.model, self._asked.question(fields, number))

    async def judge(self, groups: Sequence[Group], caller: Caller) -> ScoreColumns:
        """Return the vote on each context, with the usage; each distinct context is asked once.

        Calls to the model end by the caller's deadline: contexts without a reply by then get the
        fault TIMEOUT. Cancelling it closes the calls in flight.
        """
        self.check_api_keys(caller.cache)
        size = size_of(groups)
        if caller.cost_tracker.max_cost is not None and not self.priced:
            raise unpriced()
        asked, cost_tracker = self._asked, caller.cost_tracker
        call_options = CallOptions.of(caller.deadline, cost_tracker, caller.cache, LlmKind.kind)
        asking = Asking(self._model_caller, call_options, asyncio.Semaphore(MAX_IN_WORK))
        contexts, places = await run_by_size(
            size, number_contexts, groups, with_expected=self.needs_expected
        )
        reasons: set[str | None] = set()

        async def vote(context: Context) -> tuple[SampleResult, Session]:
            session = Session(asking, asked, keep=caller.wants_details)
            parsed_replies = await session.ask_samples(fields_of(context))
            reasons.update(parsed.reason for parsed in parsed_replies)
            return voted(parsed_replies), session

        choose_class(len(contexts) * asked.samples)
        votes = await fan_out(vote, contexts, min(MAX_IN_WORK, len(contexts)))
        refuse_if_nothing_asked(cost_tracker, reasons)
        return await run_by_size(
            size, to_columns, contexts, votes, places, asked.nothing, caller.wants_details
        )


Context = tuple[str, str, str]
"""The texts of one context, in the order of CONTEXT_FIELDS."""


def fields_of(context: Context) -> dict[str, FieldValue]:
    """Return the texts by the names that rubrics use."""
    return dict(zip(CONTEXT_FIELDS, context, strict=True))


def number_contexts(
    groups: Sequence[Group], *, with_expected: bool = True
) -> tuple[list[Context], IntArray]:
    """Return the distinct contexts in order, and the number of each context of the groups.

    Without `with_expected`, for rubrics that don't show the expected text, that text is ignored and
    is empty.
    """
    numbers: dict[Context, int] = {}
    places = [
        numbers.setdefault(
            (group.query, expected if with_expected else "", retrieved), len(numbers)
        )
        for group in groups
        for retrieved in group.retrieved
        for expected in group.expected
    ]
    return list(numbers), np.array(places, np.int64)


def to_columns(
    contexts: Sequence[Context],
    votes: Sequence[tuple[SampleResult, Session]],
    places: IntArray,
    nothing: Usage,
    wants_details: bool,
) -> ScoreColumns:
    """Return the votes as columns; `places` is the index of each context's vote.

    `nothing` is the usage if there is no call.
    """
    numbers = places.tolist()
    flags = [
        any(map(holds_reserved, context)) * Flag.RESERVED_TOKENS
        | bool(session.fallbacks) * Flag.FALLBACK
        | session.is_cut * Flag.TRUNCATED
        for context, (_, session) in zip(contexts, votes, strict=True)
    ]

    def column(values: Iterable[object], kind: type[Any]) -> Any:  # noqa: ANN401 - as the type says
        return np.array(list(values), kind)[places]

    return ScoreColumns(
        column((vote.score for vote, _ in votes), np.float64),
        column((vote.status for vote, _ in votes), np.uint8),
        column(flags, np.uint8),
        tuple(
            replace(why, index=index)
            for index, number in enumerate(numbers)
            if (why := votes[number][0].fault) is not None
        ),
        column((vote.yes for vote, _ in votes), np.bool_),
        column((vote.agreement for vote, _ in votes), np.float64),
        {
            index: detail(*votes[number])
            for index, number in enumerate(numbers if wants_details else ())
        },
        sum((one.usage for _, each in votes for one in each.answers.values()), nothing),
        column((session.source for _, session in votes), np.uint8),
    ).compact()


def detail(vote: SampleResult, session: Session) -> VerdictDetail:
    """Return the samples, the reasoning and the usage of a verdict."""
    samples = tuple(
        VerdictSample(
            parsed.status,
            parsed.yes,
            parsed.score,
            parsed.reason or "",
            parsed.reasoning,
            raw_text(reply),
            fallback=fallback,
        )
        for _, (parsed, reply, *_, fallback) in sorted(session.answers.items())
    )
    return VerdictDetail(vote.reasoning, samples, session.usage, *session.answered_by)
