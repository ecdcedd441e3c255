"""Which outcome is told to whom; the parts have tests of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from judged_server.llm.chat import ProviderFault, Reason
from judged_server.llm.config import ProviderConfiguration
from judged_server.llm.providers.dialects import DIALECTS
from judged_server.llm.transport.endpoint import (
    LONGEST_BACKOFF_S,
    Call,
    Endpoint,
)
from judged_server.llm.transport.http import HttpReply, HttpTransport

from tests.fakes.providers.faulty_http import completion
from tests.fakes.still_clock import StillClock

CALL = Call("/x", {}, b"{}", DIALECTS["openai"].read_reply, 100)
GOOD = HttpReply(200, completion(), None)


class Scripted(HttpTransport):
    """A transport without a network: gives what `script` returns, or raises it."""

    def __init__(self, script: Callable[[], HttpReply | Exception]) -> None:
        self.script = script
        self.timeouts: list[float] = []

    async def post(self, path: str, headers: Any, body: bytes, timeout_s: float) -> HttpReply:
        self.timeouts.append(timeout_s)
        await asyncio.sleep(0)
        outcome = self.script()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


def endpoint(
    script: Callable[[], HttpReply | Exception], clock: StillClock | None = None, **provider: Any
) -> tuple[Endpoint, Scripted]:
    transport = Scripted(script)
    configured = ProviderConfiguration("p", "http://localhost", **provider)
    return Endpoint(configured, clock or StillClock(), Random(1), transport), transport


def late() -> ProviderFault:
    return ProviderFault(Reason.TIMEOUT, "late", retryable=True)


async def turns() -> None:
    """Let everything happen that can."""
    for _ in range(50):
        await asyncio.sleep(0)


async def fails(asked: Endpoint, timeout_s: float = 1000.0) -> ProviderFault:
    with pytest.raises(ProviderFault) as caught:
        await asked.ask(CALL, timeout_s)
    return caught.value


async def room(asked: Endpoint, transport: Scripted) -> int:
    """Return how many calls are on their way at once when more than have room want to be."""
    gate, sent = asyncio.Event(), 0

    async def held(*_: object) -> HttpReply:
        nonlocal sent
        sent += 1
        await gate.wait()
        return GOOD

    transport.post = held
    calls = [asyncio.create_task(asked.ask(CALL, 1000.0)) for _ in range(40)]
    await turns()
    at_once = sent
    gate.set()
    await asyncio.gather(*calls)
    return at_once


def failing(*, retryable: bool = True) -> ProviderFault:
    return ProviderFault(Reason.PROVIDER_ERROR, "no", retryable=retryable)


@pytest.mark.parametrize(
    ("outcomes", "sent"),
    [([failing(retryable=False)], 1), ([failing(), late(), failing(), late()], 4)],
)
async def test_what_is_not_tried_again(outcomes, sent):
    left = iter([*outcomes, failing(retryable=False)])
    asked, transport = endpoint(lambda: next(left))
    with pytest.raises(ProviderFault) as caught:
        await asked.ask(CALL, 100.0)
    assert caught.value.attempts == len(transport.timeouts) == sent


async def test_three_tries_are_enough_where_a_fallback_stands_ready():
    asked, transport = endpoint(failing)
    with pytest.raises(ProviderFault) as caught:
        await asked.ask(CALL, 1000.0, waits=False)
    assert (caught.value.attempts, len(transport.timeouts)) == (3, 3)


async def test_waits_are_random_up_to_a_bound_that_doubles():
    waits: list[list[float]] = [[] for _ in range(7)]
    for seed in range(200):
        clock = StillClock()
        left = iter([*(failing() for _ in range(7)), GOOD])
        transport = Scripted(left.__next__)
        provider = ProviderConfiguration("p", "http://localhost")
        assert (await Endpoint(provider, clock, Random(seed), transport).ask(CALL, 100.0))[1] == 8
        for place, wait in enumerate(clock.slept):
            waits[place].append(wait)
    bounds = [0.5, 1.0, 2.0, 4.0, 8.0, LONGEST_BACKOFF_S, LONGEST_BACKOFF_S]
    for seen, bound in zip(waits, bounds, strict=True):
        assert 0 <= min(seen) < 0.05 * bound
        assert 0.95 * bound < max(seen) <= bound


async def test_an_address_at_which_nobody_ever_answered_is_given_up():
    clock = StillClock()
    gone = ProviderFault(Reason.PROVIDER_UNREACHABLE, "gone", retryable=True)
    asked, _ = endpoint(lambda: gone, clock=clock)
    faults = await asyncio.gather(*(fails(asked, 3600.0) for _ in range(100)))
    assert {fault.reason for fault in faults} == {Reason.PROVIDER_UNREACHABLE}
    assert 1030.0 <= clock.seconds < 1060.0


async def test_a_caller_s_short_deadline_is_no_news_of_the_provider():
    asked, transport = endpoint(late, max_concurrency=16, timeout_s=25.0)
    for _ in range(20):
        assert (await fails(asked, 10.0)).reason is Reason.TIMEOUT
    assert len(transport.timeouts) == 40
    transport.script = lambda: GOOD
    await asked.ask(CALL, 100.0)
    assert await room(asked, transport) == 16


async def test_a_key_that_is_refused_is_told_until_it_is_taken():
    outcomes, clock = [HttpReply(401, b"", None)], StillClock()
    asked, transport = endpoint(lambda: outcomes[0], clock=clock, max_concurrency=4)
    assert asked.queue.key_problem == ""
    await asyncio.gather(*(fails(asked) for _ in range(100)))
    assert len(transport.timeouts) == 4
    assert asked.queue.key_problem == (
        "provider p: it answered 401: it refuses the key; check key_env or key_file of the provider"
    )
    outcomes[0] = GOOD
    clock.seconds += 10.0
    await asked.ask(CALL, 100.0)
    assert asked.queue.key_problem == ""


async def test_a_request_that_is_refused_does_not_cost_others_theirs():
    outcomes = [GOOD, HttpReply(403, b'{"error": "no"}', None), GOOD]
    asked, transport = endpoint(lambda: outcomes[len(transport.timeouts) - 1])
    await asked.ask(CALL, 100.0)
    fault = await fails(asked)
    assert (fault.reason, fault.retryable) == (Reason.PROVIDER_ERROR, False)
    assert "refuses the request" in fault.message
    assert (await asked.ask(CALL, 100.0))[0].text == "YES"


class TestLeftAlone:
    @pytest.mark.parametrize("status", [429, 503])
    async def test_who_asks_for_it_is_left_alone_by_all(self, status):
        """Those who have not that long are told at once; others come when the time is over."""
        outcomes, clock = [HttpReply(status, b"", "20")], StillClock()
        asked, transport = endpoint(lambda: outcomes[0], clock=clock, max_concurrency=8)
        faults = await asyncio.gather(*(fails(asked, 10.0) for _ in range(300)))
        assert len(transport.timeouts) == 8
        held_back = [fault for fault in faults if fault.attempts == 0]
        assert len(held_back) == 292
        assert {(fault.reason, fault.retryable) for fault in held_back} == {
            (Reason.RATE_LIMITED, True)
        }
        assert "asked to be left alone" in held_back[0].message
        outcomes[0] = GOOD
        await asked.ask(CALL, 100.0)
        assert clock.seconds >= 1020.0

    @pytest.mark.parametrize("header", ["1", "0", None, "soon"])
    async def test_nobody_is_lost_before_a_provider_that_takes_ten_a_second(self, header):
        clock = StillClock()
        taken: list[float] = []

        def limited() -> HttpReply:
            if sum(at > clock.seconds - 1.0 for at in taken) >= 10:
                return HttpReply(429, b"", header)
            taken.append(clock.seconds)
            return GOOD

        asked, transport = endpoint(limited, clock=clock)
        await asyncio.gather(*(asked.ask(CALL, 3600.0) for _ in range(100)))
        assert len(taken) == 100
        assert len(transport.timeouts) <= 200
        assert clock.seconds < 1020.0


async def test_whatever_happens_no_room_is_lost():
    chance = Random(9)

    def outcome() -> HttpReply | Exception:
        bad = [HttpReply(429, b"", "1"), HttpReply(500, b"", None)]
        outcomes: list[HttpReply | Exception] = [GOOD, GOOD, *bad, late()]
        return chance.choice(outcomes)

    asked, transport = endpoint(outcome, max_concurrency=6, requests_per_minute=1e9)
    calls = [asyncio.create_task(asked.ask(CALL, 1000.0)) for _ in range(500)]
    for call in calls:  # many of them while they are on their way
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        if chance.random() < 0.5:
            call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    for _ in range(20):  # it grows as calls succeed
        at_once = await room(asked, transport)
    assert at_once == 6
