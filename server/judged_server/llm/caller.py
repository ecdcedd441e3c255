"""Answers questions to language models from the cache, from another caller's call or a provider.

A question passes through these steps, in the order of this file:

    ask                  returns the cached reply (`reply_cache`), if there is one
    _ask_or_join         joins a call in flight for the same question (`SingleFlight`)
    _ask_and_keep        waits if another server asks it (`store.postgres`); stores the reply
    _ask_model           asks the model, or its fallbacks when its provider fails
    _ask_one             asks within the budgets (`budgets`), twice if the reply is malformed
    models               writes the request and reads the reply in the provider's dialect
    transport.endpoint   waits for a turn, sends the request (`http`) and retries
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from judged.values.choices import CacheMode, Source, Status
from judged.values.judges import Usage

from judged_server import telemetry
from judged_server.domain import CostTracker, to_amount
from judged_server.llm.budgets import Budgets
from judged_server.llm.chat import (
    STORE_AWAY,
    ChatModelCard,
    ChatReply,
    ChatRequest,
    Completed,
    ModelFault,
    ParsedReply,
    Prices,
    ProviderFault,
    Reason,
    abstained,
    failed,
)
from judged_server.llm.models import ChatModel, in_turn
from judged_server.llm.parsing import read
from judged_server.llm.question import PlannedCall, Question, new_nonce, question_key, request_for
from judged_server.llm.reply_cache import ReplyCache
from judged_server.scheduling.fairness import SingleFlight
from judged_server.store.kept_rows import StoreAway
from judged_server.tenant import TENANT

_log = telemetry.Logger("llm")

_TRIES = 2
"""Requests per question; the second says what was wrong with the first reply. Both are paid for."""
_REPAIRS: dict[Reason | None, str] = {
    Reason.SCHEMA: "",
    Reason.UNPARSABLE: "it was not in the form that was asked for",
    Reason.REPLY_TRUNCATED: "it was cut off before its end; be brief",
}
"""What the second request says about a malformed reply; "" uses the parser's message. Refusals, and
replies that repeat the marker, are not asked for again."""
_BEFORE_FALLBACK = 0.5
"""Share of the remaining time that a model may use while it has fallbacks."""
_OF_THE_PROVIDER = {
    Reason.TIMEOUT,
    Reason.RATE_LIMITED,
    Reason.PROVIDER_UNREACHABLE,
    Reason.PROVIDER_REFUSED_KEY,
    Reason.BREAKER_OPEN,
}
"""Reasons to ask a fallback: another provider may not fail this way."""
_LEAVE_SHARE, _LEAVE_LEAST_S, _LEAVE_MOST_S = 0.1, 0.05, 1.0
"""Time reserved for returning the reply: a share of the caller's time, within bounds in seconds."""
_MOST_OWED = 10_000
"""Most replies kept while their cost is not in the ledger yet; the oldest are dropped first."""
_LONGEST_S = 3600.0
"""Time limit of a call without a deadline."""
_PER_MILLION = 1e-6


def _now() -> float:
    return asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class CallOptions:
    """Options of all questions of a call, which must have ended at `ends_at` of the loop's clock.

    `cache` says how to use the verdict cache, `judge` is the kind of the judge that asks.
    """

    ends_at: float
    cost_tracker: CostTracker = field(default_factory=CostTracker)
    cache: CacheMode = CacheMode.USE
    judge: str = ""

    @classmethod
    def of(
        cls,
        deadline: float | None,
        cost_tracker: CostTracker | None = None,
        cache: CacheMode = CacheMode.USE,
        judge: str = "",
    ) -> CallOptions:
        """Return the options for a deadline on the loop's clock, None for no deadline.

        `ends_at` is a little earlier, so that the reply still reaches the caller.
        """
        now = _now()
        ends_at = now + _LONGEST_S
        if deadline is not None:
            leave_s = max(_LEAVE_SHARE * (deadline - now), _LEAVE_LEAST_S)
            ends_at = deadline - min(leave_s, _LEAVE_MOST_S)
        return cls(ends_at, cost_tracker or CostTracker(), cache, judge)


class Answer(NamedTuple):
    """The outcome of a question: the parsed reply, the raw reply if there is one, and the usage.

    `fallback` names the model that replied in place of the one that was asked. `unwritten` says
    that the cost could not be written to the ledger in time.
    """

    parsed: ParsedReply
    reply: ChatReply | None = None
    usage: Usage = Usage()
    source: Source = Source.COMPUTED
    unwritten: bool = False
    fallback: str = ""


class _Asked(NamedTuple):
    """A question being asked, and its key in the caller's cache domain."""

    key: bytes
    model: ChatModel
    question: Question
    call_options: CallOptions

    @property
    def left_s(self) -> float:
        """Seconds left to answer."""
        return self.call_options.ends_at - _now()

    def parsed(self, reply: ChatReply) -> ParsedReply:
        """Return the parsed form of a reply, new or cached."""
        if reply.unreadable:
            return failed(Reason.PROVIDER_ERROR, reply.unreadable)
        return read(reply, self.question.rubric, structured=self.model.card.structured)


class ModelCaller:
    """Asks the models of a server. One instance serves all calls of a process."""

    def __init__(self, budgets: Budgets | None = None, cache: ReplyCache | None = None) -> None:
        self._budgets = budgets or Budgets()
        self._cache = cache
        self._inflight: SingleFlight[float, Answer] = SingleFlight()  # about: its leader's deadline
        self._owed: dict[bytes, Answer] = {}
        """Answers withheld because their cost could not be written to the ledger."""

    async def ask(self, model: ChatModel, question: Question, call_options: CallOptions) -> Answer:
        """Return an answer, which may be a failure, before the call's deadline.

        Once its last caller is cancelled, the connection of the request in flight is closed.
        """
        asked = _Asked(_own_key(model.card, question), model, question, call_options)
        if call_options.cache is not CacheMode.REFRESH:
            kept = await self._kept(asked)
            if kept is not None:
                return kept
        if call_options.cache is CacheMode.ONLY:
            is_away = self._cache is not None and self._cache.is_away
            return Answer(_STORE_AWAY if is_away else _NOT_CACHED)
        return await self._ask_or_join(asked)

    async def knows(self, planned: PlannedCall) -> bool:
        """Return whether the cache would answer a question."""
        model, question = planned.model, planned.question
        if self._cache is None or planned.times > 1:
            return False
        asked = _Asked(_own_key(model.card, question), model, question, CallOptions(0.0))
        return await self._kept(asked) is not None

    async def _kept(self, asked: _Asked) -> Answer | None:
        """Return the cached answer, None if there is none that can be used."""
        if self._cache is None:
            return None
        reply = self._cache.held(asked.key)
        if reply is None:
            began = _now()
            reply = await self._cache.stored(asked.key)
            took = _now() - began
            telemetry.note("stage_seconds", took, "store")
            if telemetry.tracer is not None:
                telemetry.tracer.stages([telemetry.StageRun("store", time.time_ns(), took)])
        telemetry.note_lookups("replies", int(reply is not None), int(reply is None))
        parsed = None if reply is None else asked.parsed(reply)
        if parsed is None or parsed.status is not Status.OK:
            return None
        return Answer(parsed, reply, Usage(cached=1), Source.CACHE)

    async def _ask_or_join(self, asked: _Asked) -> Answer:
        """Ask, or wait for the answer to the same question of another caller."""
        while True:
            flight, ends_at = self._inflight.find(asked.key), asked.call_options.ends_at
            if flight is None and asked.key in self._owed:
                return await self._when_written(asked)
            joins, left_s = flight is not None, max(0.0, asked.left_s)
            if flight is None:
                flight = self._inflight.begin(asked.key, ends_at, lambda: self._ask_and_keep(asked))
            answer = await self._inflight.wait(flight, left_s if joins else None)
            if answer is None:
                return Answer(_NO_TIME)
            if not joins:
                return answer
            parsed = answer.parsed
            if parsed.status is Status.OK and answer.reply is not None:
                # Parsed again: the caller's own threshold applies, which is not part of the key.
                parsed = asked.parsed(answer.reply)
            # The leader ran out of time or budget; this caller may have more.
            gave_up_early = parsed.reason is Reason.TIMEOUT and ends_at > flight.about
            if not gave_up_early and parsed.reason is not Reason.BUDGET:
                return answer._replace(parsed=parsed, usage=Usage(shared=1), source=Source.SHARED)

    async def _ask_and_keep(self, asked: _Asked) -> Answer:
        """Ask the provider, and store the reply if it is a verdict.

        Of the servers that share a store one asks, and the others wait for its reply.
        """
        claimed = await self._claim(asked)
        if isinstance(claimed, Answer):
            return claimed
        try:
            answer = await self._ask_model(asked)
            if answer.unwritten:
                self._owed[asked.key] = answer
                if len(self._owed) > _MOST_OWED:
                    del self._owed[next(iter(self._owed))]
                return answer._replace(parsed=_UNWRITTEN)
            claimed = not await self._keep(asked, answer) and claimed
            return answer
        finally:
            if self._cache is not None and claimed:
                self._cache.release(asked.key)

    async def _claim(self, asked: _Asked) -> Answer | bool:
        """Return an answer if no model need be asked, else whether the question was claimed.

        It is asked without a claim if the cache mode is REFRESH or the stored reply can't be read.
        While the store can't be reached, only models without prices are asked.
        """
        cache = self._cache
        if cache is None or asked.call_options.cache is CacheMode.REFRESH:
            return cache is not None and cache.is_away and _without_store(asked.model)
        try:
            reply = await cache.claimed(asked.key, max(0.0, asked.left_s))
        except TimeoutError:
            return Answer(_NO_TIME)
        except StoreAway:
            return _without_store(asked.model)
        if reply is None:
            return True
        parsed = asked.parsed(reply)
        is_read = parsed.status is Status.OK
        return is_read and Answer(parsed, reply, Usage(shared=1), Source.SHARED)

    async def _keep(self, asked: _Asked, answer: Answer) -> bool:
        """Store the reply if it is the model's own verdict; return whether it was stored."""
        is_own_verdict = answer.parsed.status is Status.OK and not answer.fallback
        if self._cache is not None and answer.reply is not None and is_own_verdict:
            # A reply that cost nothing is returned before it is stored.
            left_s = 0.0 if asked.model.card.prices is None else asked.left_s
            return await self._cache.keep(asked.key, answer.reply, left_s)
        return False

    async def _when_written(self, asked: _Asked) -> Answer:
        """Return an answer that was paid for earlier, once its cost is in the ledger."""
        owed = self._owed[asked.key]
        if owed.reply is None or not await self._budgets.written(asked.call_options.ends_at):
            return Answer(_UNWRITTEN)
        parsed, usage = asked.parsed(owed.reply), Usage(cached=1)
        found = Answer(parsed, owed.reply, usage, Source.CACHE, fallback=owed.fallback)
        if self._owed.pop(asked.key, None) is not None:
            await self._keep(asked, found)
        return found

    async def _ask_model(self, asked: _Asked) -> Answer:
        """Ask the model; if its provider fails, ask its fallbacks in the remaining time."""
        fallback = asked.model.fallback
        if fallback is None:
            return (await self._ask_one(asked))[0]
        ends_at = asked.call_options.ends_at - (1 - _BEFORE_FALLBACK) * asked.left_s
        options = replace(asked.call_options, ends_at=ends_at)
        answer, fault = await self._ask_one(asked._replace(call_options=options))
        if answer.reply is not None or fault is None or not _passes_on(fault) or asked.left_s <= 0:
            return answer
        name = fallback.card.name
        _log.warning(
            "llm fallback", model=asked.model.card.name, fallback=name, reason=str(fault.reason)
        )
        other = await self._ask_model(asked._replace(model=fallback))
        usage = answer.usage + other.usage
        if other.reply is None:
            return answer._replace(usage=usage)
        return other._replace(usage=usage, fallback=other.fallback or name)

    async def _ask_one(self, asked: _Asked) -> tuple[Answer, ModelFault | None]:
        """Ask one model, again if its reply is malformed. Returns the last fault too."""
        _, model, question, call_options = asked
        card = model.card
        answer = Answer(_NO_TIME, usage=nothing(card.prices))
        failure = None
        for attempt in range(_TRIES):
            if asked.left_s <= 0:
                break
            parsed, reply, usage, *_ = answer
            nonce = new_nonce()
            repair = ""
            if reply is not None and not reply.unreadable:
                repair = _REPAIRS[parsed.reason] or parsed.message
            request = request_for(
                question, nonce, structured=card.structured, attempt=attempt, repair=repair
            )
            began = _now()
            try:
                done = await self._budgets.complete(
                    model,
                    request,
                    asked.left_s,
                    call_options.cost_tracker,
                    question.rubric.id,
                    call_options.judge,
                )
            except ModelFault as fault:
                failure = fault
                took = _now() - began
                _trace(card, question, request, took, fault)
                if reply is None:  # else the fault of the earlier reply is more telling
                    parsed = failed(fault.reason, fault.message, retryable=fault.retryable)
                usage += _without_reply(fault, card.prices, took)
                answer = answer._replace(parsed=parsed, usage=usage)
                break
            _trace(card, question, request, done.latency_s, done)
            reply = done.reply
            parsed = asked.parsed(reply)
            if nonce in reply.text or nonce in parsed.reasoning:
                parsed = _MARKER_REPEATED
            used = _usage(done, card)
            usage = usage + used if attempt else used
            answer = Answer(parsed, reply, usage, unwritten=done.unwritten)
            if not reply.unreadable and parsed.reason not in _REPAIRS:
                break
        if answer.usage.calls or answer.usage.cost:
            call_options.cost_tracker.note(answer.usage)
        return answer, failure


def _without_store(model: ChatModel) -> Answer | bool:
    """Return False if a model may be asked while the store can't be reached, else the answer."""
    priced = any(each.card.prices is not None for each in in_turn(model))
    return priced and Answer(_STORE_AWAY)


def _passes_on(fault: ModelFault) -> bool:
    """Return whether to ask the fallback after a fault.

    A request that was rejected as invalid, for example as too long, is not sent to another one.
    """
    if not isinstance(fault, ProviderFault):
        return False
    return fault.reason in _OF_THE_PROVIDER or fault.retryable or fault.unsent


def _trace(
    card: ChatModelCard,
    question: Question,
    request: ChatRequest,
    seconds: float,
    outcome: Completed | ModelFault,
) -> None:
    """Record a question in metrics and traces: its names and numbers, never its texts."""
    if isinstance(outcome, Completed):
        telemetry.note("stage_seconds", seconds, "provider")
    if telemetry.tracer is None:
        return
    reply = outcome.reply if isinstance(outcome, Completed) else None
    call = telemetry.ModelCall(
        card.name,
        card.provider,
        card.dialect,
        card.model,
        question.rubric.id,
        request.max_tokens,
        request.temperature if card.takes_temperature else None,
        seconds,
        outcome.attempts if isinstance(outcome, Completed | ProviderFault) else 0,
        str(outcome.reason) if isinstance(outcome, ModelFault) else "",
        *((reply.model, *reply.usage[:2]) if reply is not None else ()),
    )
    telemetry.tracer.question(call)


def _own_key(card: ChatModelCard, question: Question) -> bytes:
    """Return the key of an answer in the caller's cache domain."""
    return TENANT.get().own_key(question_key(card, question))


def nothing(prices: Prices | None) -> Usage:
    """Return the usage of no call: a cost of 0, or None for a model without prices."""
    return Usage(cost=None if prices is None else 0.0)


_NOT_CACHED = failed(
    Reason.NOT_CACHED,
    "the verdict cache has no reply to this, and the request lets no model be asked; "
    "ask once with CACHE_MODE_USE to fill it, unless the server keeps no replies "
    "(--llm-cache off)",
)
_MARKER_REPEATED = abstained(
    Reason.MARKER_REPEATED,
    "the model's reply repeats the secret marker of its prompt: it copied the prompt, or "
    "one of the texts made it do so",
)
_UNWRITTEN = failed(
    Reason.BUDGET,
    "the model has answered, but what that cost could not be written down in the call's "
    "time; send it again, and it costs nothing more; the operator finds the cause in the log",
    retryable=True,
)
_STORE_AWAY = failed(Reason.STORE_UNREACHABLE, STORE_AWAY, retryable=True)
_NO_TIME = failed(
    Reason.TIMEOUT,
    "the call's time was used up before the model could be asked; allow more, or send less",
    retryable=True,
)


def _usage(done: Completed, card: ChatModelCard) -> Usage:
    """Return the usage of a reply, with its cost by the model's prices."""
    prices = card.prices
    tokens = done.reply.usage
    cost = None
    if prices is not None:
        cost = to_amount(done.in_doubt) + _PER_MILLION * (
            tokens.input_tokens * prices.input_per_million
            + tokens.output_tokens * prices.output_per_million
        )
    return Usage(
        1,
        done.attempts,
        tokens.input_tokens,
        tokens.output_tokens,
        cost,
        done.latency_s,
        estimated=int(tokens.estimated or done.in_doubt > 0),
        left_out=tuple(sorted({f"{card.name}: {what}" for what in done.reply.left_out})),
    )


def _without_reply(fault: ModelFault, prices: Prices | None, seconds: float) -> Usage:
    """Return the usage of requests without a reply, some of which may have been charged."""
    sent = fault.attempts if isinstance(fault, ProviderFault) else 0
    if not (sent or fault.in_doubt):
        return nothing(prices)
    cost = None if prices is None else to_amount(fault.in_doubt)
    return Usage(attempts=sent, cost=cost, latency_s=seconds, estimated=int(fault.in_doubt > 0))
