"""The judge `llm`: a language model reads each context by a rubric, and its samples vote.

Owns the parameters, what enters the scoring key, and one sample: prompt, call, reading, and a
second try when the reply breaks its form. Leaves models and prompts to `llm`, which contexts are
asked and what becomes of the votes to `asked_contexts`, the order of the calls to `fan_out`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from judged_server.domain import (
    IntArray,
    JudgeIdentity,
    JudgeSpec,
    ParameterScalar,
    QueryGroup,
    ScoreColumns,
    Status,
    Usage,
)
from judged_server.errors import ModelNotConfigured
from judged_server.judges.asked_contexts import Ballot, TextContext, number_contexts, to_columns
from judged_server.judges.fan_out import fan_out
from judged_server.llm.chat import ChatModel, ChatReply, Completed, Prices
from judged_server.llm.faults import ModelFault, ProviderFault, Reason
from judged_server.llm.parsing import PARSER_VERSION, read
from judged_server.llm.rubrics import PROMPT_VERSION, Rubric, new_nonce, write
from judged_server.llm.voting import Opinion
from judged_server.off_loop import off_loop_if
from judged_server.ports import Caller, Parameter, Profile

VERSION = 1
RUBRIC = "retrieval_match"
MAX_SAMPLES = 32
VOTES_ABOVE_ZERO = 3
"""Samples of a temperature above 0, where one alone may be chance."""

MAX_IN_WORK = 256
"""Samples of one call that wait for the model at once; the model has limits of its own."""
LARGE_CONTEXTS = 1000
"""More contexts than this are told apart, and put together, off the event loop: about 1 ms."""

_TRIES = 2
_LEAVE_SHARE, _LEAVE_LEAST_S, _LEAVE_MOST_S = 0.05, 0.05, 1.0
"""What is left of the caller's time for the reply: a share of it, within bounds in seconds."""
_LONGEST_S = 3600.0
"""The time of a caller who waits for ever."""
_PER_MILLION = 1e-6
_NO_CONFIGURATION = (
    "name a provider and a model in a file and start the server with --llm-config FILE; "
    "see docs/providers.md"
)


class AskableModels(Protocol):
    """The language models of this server."""

    def get(self, name: str) -> ChatModel:
        """Return a model by name, "" for the default. Raises ModelNotConfigured."""
        ...


class LlmKind:
    """Builds `llm` judges over the language models of this server, None if it has none."""

    kind = "llm"
    for_embeddings: Mapping[str, ParameterScalar] | None = None

    def __init__(self, models: AskableModels | None, rubrics: Mapping[str, Rubric]) -> None:
        self._models = models
        self._rubrics = rubrics

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """One profile; its parameters are the model, what it is asked, and how often."""
        parameters = (
            Parameter("model", "", "The language model; empty for the server's default."),
            Parameter("rubric", RUBRIC, "What the model is asked.", choices=tuple(self._rubrics)),
            Parameter(
                "samples",
                0,
                "Votes on each context; 0 stands for 1 at temperature 0 and for 3 above.",
                0,
                MAX_SAMPLES,
            ),
            Parameter("temperature", 0.0, "Chance in the model's choice of words.", 0.0, 2.0),
            Parameter("max_tokens", 256, "The longest reply.", 1, 32768),
        )
        description = "A language model says whether the texts match, by a rubric."
        return (Profile("", description, self._rubrics[RUBRIC].min_score, parameters),)

    def build(self, spec: JudgeSpec) -> LlmJudge:
        """Return the judge. Raises ModelNotConfigured when there is no such model here."""
        given = spec.parameters
        name = str(given.get("model", ""))
        if self._models is None:
            raise ModelNotConfigured(name, _NO_CONFIGURATION)
        temperature = float(given.get("temperature", 0.0))
        samples = int(given.get("samples", 0)) or (VOTES_ABOVE_ZERO if temperature else 1)
        rubric = self._rubrics[str(given.get("rubric", RUBRIC))]
        return LlmJudge(
            self._models.get(name),
            rubric,
            samples=samples,
            temperature=temperature,
            max_tokens=int(given.get("max_tokens", 256)),
            min_score=rubric.min_score if spec.min_score is None else spec.min_score,
        )


class LlmJudge:
    """Scores contexts by asking a language model; implements ports.AskingJudge."""

    wants_embeddings = False
    wants_spans = False

    def __init__(
        self,
        model: ChatModel,
        rubric: Rubric,
        *,
        samples: int,
        temperature: float,
        max_tokens: int,
        min_score: float,
    ) -> None:
        self._model = model
        self._rubric = rubric
        self._samples = samples
        self._temperature = temperature
        self._max_tokens = max_tokens
        card = model.card
        self.identity = JudgeIdentity.build(
            LlmKind.kind,
            "",
            min_score,
            [
                ("rubric", f"{rubric.id}@{rubric.version}"),
                ("sha", rubric.sha256[:8]),
                ("model", card.name),
                ("structured", str(card.structured).lower()),
                ("samples", str(samples)),
                ("temperature", format(temperature, ".12g")),
                ("max_tokens", str(max_tokens)),
            ],
            VERSION,
            [
                ("provider", card.provider),
                ("dialect", card.dialect),
                ("provider_model", card.model),
                ("rubric_sha256", rubric.sha256),
                ("prompt_version", str(PROMPT_VERSION)),
                ("parser_version", str(PARSER_VERSION)),
            ],
        )

    async def ask(self, groups: Sequence[QueryGroup], caller: Caller) -> ScoreColumns:
        """Return the vote on each context, with what asking took; each distinct one is asked once.

        A call to the model gets no longer than the caller waits, so that what came in time is
        answered and the rest has the fault TIMEOUT. Cancelling it closes the calls under way.
        """
        large = len(groups) > LARGE_CONTEXTS
        large = large or sum(group.n_contexts for group in groups) > LARGE_CONTEXTS
        ends_at = _ends_at(caller.leaves_at)
        nothing = Usage(cost=None if self._model.card.prices is None else 0.0)

        def prepare() -> tuple[list[TextContext], list[Ballot], IntArray]:
            contexts, places = number_contexts(groups)
            ballots = [Ballot(self._samples, nothing, caller.wants_details) for _ in contexts]
            return contexts, ballots, places

        contexts, ballots, places = await off_loop_if(large, prepare)

        async def sample(job: tuple[int, int]) -> None:
            place, number = job
            await self._sample(contexts[place], number, ends_at, ballots[place])

        jobs = (
            (place, number) for place in range(len(contexts)) for number in range(self._samples)
        )
        await fan_out(sample, jobs, min(MAX_IN_WORK, len(contexts) * self._samples))
        return await off_loop_if(large, to_columns, ballots, places, nothing)

    async def _sample(
        self, context: TextContext, number: int, ends_at: float, ballot: Ballot
    ) -> None:
        """Ask for one sample and put it on the ballot, whatever comes of it."""
        fields = context._asdict()
        structured = self._model.card.structured
        now = asyncio.get_running_loop().time
        reply: ChatReply | None = None
        opinion: Opinion | None = None
        for attempt in range(_TRIES):
            left_s = ends_at - now()
            if left_s <= 0:
                break
            request = write(
                self._rubric,
                fields,
                new_nonce(),
                structured=structured,
                max_tokens=self._max_tokens,
                temperature=self._temperature,
                # Numbers that no other sample of the context has, so that none repeats another.
                seed=number + attempt * MAX_SAMPLES,
            )
            try:
                done = await self._model.complete(request, left_s)
            except ModelFault as fault:
                reply, opinion = None, _failed(fault)
                if isinstance(fault, ProviderFault):
                    ballot.usage += Usage(attempts=fault.attempts)
                break
            reply = done.reply
            opinion = read(reply, self._rubric, structured=structured)
            ballot.usage += _usage(done, self._model.card.prices)
            if opinion.status is not Status.ERROR:
                break
        ballot.put(number, opinion or _NO_TIME, reply)


_NO_TIME = Opinion(
    Status.ERROR,
    reason=Reason.TIMEOUT,
    message="the call's time was used up before the model could be asked; allow more, or send less",
    retryable=True,
)


def _failed(fault: ModelFault) -> Opinion:
    return Opinion(
        Status.ERROR, reason=fault.reason, message=fault.message, retryable=fault.retryable
    )


def _ends_at(leaves_at: float | None) -> float:
    """Return when the last call must have ended, so that the caller still gets its reply."""
    now = asyncio.get_running_loop().time()
    if leaves_at is None:
        return now + _LONGEST_S
    left_s = leaves_at - now
    return leaves_at - min(max(_LEAVE_SHARE * left_s, _LEAVE_LEAST_S), _LEAVE_MOST_S)


def _usage(done: Completed, prices: Prices | None) -> Usage:
    tokens = done.reply.usage
    cost = None
    if prices is not None:
        cost = _PER_MILLION * (
            tokens.input_tokens * prices.input_per_million
            + tokens.output_tokens * prices.output_per_million
        )
    return Usage(1, done.attempts, tokens.input_tokens, tokens.output_tokens, cost, done.latency_s)
