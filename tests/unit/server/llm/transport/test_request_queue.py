"""Who is sent next, and what becomes of those who wait; what a fault means is in test_endpoint."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from judged_server.llm.chat import ProviderFault, Reason
from judged_server.llm.config import ProviderConfiguration
from judged_server.llm.transport.endpoint import (
    REQUEST_TOKENS,
    TURN_TOKENS,
    RequestQueue,
    Turn,
)
from judged_server.tenant import SENDER, Sender

from tests.fakes.still_clock import StillClock

DOWN = ProviderFault(Reason.PROVIDER_ERROR, "down", retryable=True, status=500)
FAR = 10_000.0


def queue(clock: StillClock | None = None, **provider: Any) -> RequestQueue:
    return RequestQueue(
        ProviderConfiguration("p", "http://localhost", **provider), clock or StillClock()
    )


async def known(**provider: Any) -> tuple[RequestQueue, StillClock]:
    """The queue of a provider that has answered."""
    clock = StillClock()
    asked = queue(clock, **provider)
    asked.answered(await asked.turn(0, FAR), 0)
    return asked, clock


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class TestFairness:
    """Of a provider that takes one request at a time, once one is answered."""

    async def order(self, senders: list[Sender], tokens: int = 1_000) -> list[str]:
        asked, _ = await known(max_concurrency=1)
        order: list[str] = []

        async def call(sender: Sender) -> None:
            SENDER.set(sender)
            turn = await asked.turn(tokens, FAR)
            order.append(sender.name)
            asked.answered(turn, 0)

        held = await asked.turn(0, FAR)
        calls = [asyncio.create_task(call(sender)) for sender in senders]
        await settle()
        asked.answered(held, 0)
        await asyncio.gather(*calls)
        return order

    async def test_a_light_sender_waits_for_one_turn_of_a_busy_one(self):
        order = await self.order([Sender("busy")] * 50 + [Sender("light")] * 2)
        turn = -(-TURN_TOKENS // (1_000 + REQUEST_TOKENS))
        assert [i for i, name in enumerate(order) if name == "light"] == [turn, turn + 1]

    async def test_a_weight_is_a_share(self):
        order = await self.order([Sender("a")] * 60 + [Sender("b", weight=3.0)] * 60)
        assert 2.5 < order[:40].count("b") / order[:40].count("a") < 3.5

    async def test_batch_work_waits_and_has_a_turn_now_and_then(self):
        order = await self.order([Sender("batch", is_batch=True)] * 5 + [Sender("now")] * 20)
        assert [i for i, name in enumerate(order) if name == "batch"][:2] == [7, 15]


async def test_a_turn_that_comes_with_a_cancel_goes_to_the_next():
    asked, _ = await known(max_concurrency=1)
    held = await asked.turn(0, FAR)
    first, second = (asyncio.create_task(asked.turn(0, FAR)) for _ in range(2))
    await settle()
    asked.answered(held, 0)  # the first one's turn ...
    first.cancel()  # ... before it could take it
    with pytest.raises(asyncio.CancelledError):
        await first
    assert isinstance(await second, Turn)
    assert asked.window.in_flight == 1


async def test_one_whose_time_ends_while_it_waits_for_room_says_so():
    asked, clock = await known(max_concurrency=1)
    await asked.turn(0, FAR)
    with pytest.raises(ProviderFault, match="max_concurrency") as caught:
        await asked.turn(0, clock.seconds + 0.05)
    assert (caught.value.reason, caught.value.attempts) == (Reason.TIMEOUT, 0)


async def test_what_was_not_sent_frees_its_place_and_its_rate():
    asked, clock = await known(max_concurrency=1, requests_per_minute=60)
    clock.seconds += 60
    for _ in range(20):
        asked.dropped(await asked.turn(0, FAR), was_sent=False)
    assert asked.window.in_flight == 0
    assert clock.seconds < 1075


class TestFallbackStandsReady:
    """Calls that need not wait for a provider in trouble, since another one can be asked."""

    async def test_an_open_breaker_is_not_waited_for(self):
        asked, _ = await known(max_concurrency=1)
        for _ in range(13):
            asked.failed(await asked.turn(0, FAR), DOWN, full_time=True)
        held = await asked.turn(0, FAR)
        waiting = asyncio.create_task(asked.turn(0, FAR, waits=False))
        await settle()
        asked.failed(held, DOWN, full_time=True)
        for late in (waiting, asked.turn(0, FAR, waits=False)):
            with pytest.raises(ProviderFault) as caught:
                await late
            assert (caught.value.reason, caught.value.attempts) == (Reason.BREAKER_OPEN, 0)
