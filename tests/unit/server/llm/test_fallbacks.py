"""Which failures pass a question on, who has answered, and in whose time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from judged_server.llm.chat import (
    ChatModelCard,
    ChatReply,
    ChatRequest,
    Completed,
    FinishReason,
    ProviderFault,
    Reason,
    TokenUsage,
)
from judged_server.llm.models import ModelChain, with_chain

from tests.fakes.still_clock import StillClock

QUESTION = ChatRequest("s", "u", None, 9, 0.0)


def card(name: str, **changes: Any) -> ChatModelCard:
    fields: dict[str, Any] = {"structured": True, "prices": None, **changes}
    return ChatModelCard(name, f"p-{name}", "openai", f"m-{name}", conditions=name, **fields)


def fault(reason: Reason, *, retryable: bool = True, attempts: int = 1) -> ProviderFault:
    return ProviderFault(reason, "no", retryable=retryable, attempts=attempts)


class Scripted:
    """A model that takes some time and then does what it was told."""

    def __init__(
        self,
        name: str,
        clock: StillClock,
        outcome: ProviderFault | str,
        takes_s: float = 0.0,
        **changes: Any,
    ) -> None:
        self.card = card(name, **changes)
        self.cards = (self.card,)
        self.problem = ""
        self._clock = clock
        self._outcome = outcome
        self._takes_s = takes_s
        self.left_s: list[float] = []

    async def complete(
        self, request: ChatRequest, timeout_s: float, *, waits: bool = True
    ) -> Completed:
        self.left_s.append(timeout_s)
        await self._clock.sleep(self._takes_s)
        if isinstance(self._outcome, ProviderFault):
            raise self._outcome
        reply = ChatReply(self._outcome, FinishReason.STOP, TokenUsage(1, 1), self.card.model)
        return Completed(reply, 2, self._takes_s)


def chain(clock: StillClock, *models: Scripted) -> ModelChain:
    return ModelChain(models[0].card, models, clock)


@pytest.mark.parametrize(
    "reason",
    [
        Reason.TIMEOUT,
        Reason.RATE_LIMITED,
        Reason.PROVIDER_UNREACHABLE,
        Reason.PROVIDER_REFUSED_KEY,
        Reason.BREAKER_OPEN,
        Reason.PROVIDER_ERROR,
    ],
)
async def test_the_next_answers_in_the_time_that_is_left(reason):
    clock = StillClock()
    failing = fault(reason, retryable=reason is not Reason.PROVIDER_REFUSED_KEY, attempts=3)
    first, second = Scripted("a", clock, failing, 4.0), Scripted("b", clock, "no", 1.0)
    done = await chain(clock, first, second).complete(QUESTION, 10.0)
    assert (done.reply.text, done.reply.model) == ("no", "m-b")
    assert done.answered_by == second.card
    assert (done.attempts, done.latency_s) == (5, 5.0)
    assert (first.left_s, second.left_s) == ([5.0], [6.0])


class Hanging(Scripted):
    """A model that takes all the time it gets."""

    async def complete(
        self, request: ChatRequest, timeout_s: float, *, waits: bool = True
    ) -> Completed:
        self._takes_s = timeout_s
        return await super().complete(request, timeout_s)


@pytest.mark.parametrize(("hanging", "left_s"), [(1, [5.0, 5.0]), (2, [5.0, 2.5, 2.5])])
async def test_models_that_hang_leave_time_to_the_next(hanging: int, left_s: list[float]):
    clock = StillClock()
    models = [Hanging(str(n), clock, fault(Reason.TIMEOUT)) for n in range(hanging)]
    models.append(Scripted("last", clock, "yes", 1.0))
    done = await chain(clock, *models).complete(QUESTION, 10.0)
    assert (done.reply.text, done.answered_by) == ("yes", models[-1].card)
    assert [model.left_s for model in models] == [[left] for left in left_s]


async def test_a_question_that_was_turned_down_as_such_goes_no_further():
    clock = StillClock()
    first = Scripted("a", clock, fault(Reason.PROVIDER_ERROR, retryable=False))
    second = Scripted("b", clock, "no")
    with pytest.raises(ProviderFault) as caught:
        await chain(clock, first, second).complete(QUESTION, 10.0)
    assert caught.value.attempts == 1
    assert second.left_s == []


async def test_when_none_answers_the_first_fault_counts_with_the_attempts_of_all():
    clock = StillClock()
    models = [
        Scripted("a", clock, fault(Reason.PROVIDER_REFUSED_KEY, retryable=False, attempts=1)),
        Scripted("b", clock, fault(Reason.BREAKER_OPEN, attempts=0)),
        Scripted("c", clock, fault(Reason.PROVIDER_ERROR, attempts=3)),
    ]
    with pytest.raises(ProviderFault) as caught:
        await chain(clock, *models).complete(QUESTION, 10.0)
    assert (caught.value.reason, caught.value.attempts) == (Reason.PROVIDER_REFUSED_KEY, 4)


async def test_a_cancel_is_not_passed_on():
    clock = StillClock()
    hangs = Scripted("a", clock, "yes")
    hangs.complete = lambda *_, **__: asyncio.sleep(60)
    second = Scripted("b", clock, "no")
    call = asyncio.create_task(chain(clock, hangs, second).complete(QUESTION, 10.0))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert second.left_s == []


def test_the_chain_enters_the_conditions_of_the_card():
    alone = card("a")
    assert with_chain(alone, []) is alone
    found = {
        with_chain(alone, others).conditions
        for others in ([card("b")], [card("b"), card("c")], [card("c"), card("b")])
    }
    assert len(found | {alone.conditions}) == 4
