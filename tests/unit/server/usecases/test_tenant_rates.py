"""Work of a tenant a second: a burst, then what the limit says, and never a message for ever."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.errors import TenantLimit
from judged_server.tenant import Tenant
from judged_server.usecases.tenant_rates import BURST_S, BYTES_A_TOKEN, TenantRates

from tests.fakes.still_clock import StillClock

RATE = 100.0


def size(tokens: float) -> int:
    return math.ceil(tokens * BYTES_A_TOKEN)


BUSY = Tenant("busy", tokens_per_second=RATE)


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


def test_a_burst_is_let_in_and_then_it_is_said_when_to_come_back(clock: StillClock):
    rates = TenantRates(clock)
    for _ in range(10):
        rates.charge(BUSY, size(RATE * BURST_S / 10))
    with pytest.raises(TenantLimit, match="you may send 100 tokens a second") as refused:
        rates.charge(BUSY, size(10))
    assert refused.value.metadata == {"limit": "tokens_per_second"}
    clock.seconds += refused.value.retry_after_s
    rates.charge(BUSY, size(10))


def test_a_message_of_any_size_goes_through_and_is_made_up_for(clock: StillClock):
    rates = TenantRates(clock)
    rates.charge(BUSY, size(RATE * 1000))
    with pytest.raises(TenantLimit) as refused:
        rates.charge(BUSY, size(1))
    assert refused.value.retry_after_s == pytest.approx(1000 - BURST_S, abs=1)


async def test_a_stream_is_paced_and_not_broken(clock: StillClock):
    rates = TenantRates(clock)
    for _ in range(5):
        await rates.pace(BUSY, size(RATE * BURST_S))
    assert sum(clock.slept) == pytest.approx(4 * BURST_S - BURST_S, abs=1)


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 3000)), min_size=1, max_size=60))
def test_no_more_goes_through_than_the_limit_says(sent):
    clock = StillClock()
    rates, began, let_in = TenantRates(clock), clock.seconds, [0]
    for pause, tokens in sent:
        clock.seconds += pause
        try:
            rates.charge(BUSY, size(tokens))
        except TenantLimit:
            continue
        let_in.append(int(size(tokens) / BYTES_A_TOKEN))
        # What was let in before the newest message was within the limit.
        assert sum(let_in[:-1]) <= RATE * (BURST_S + clock.seconds - began) + 1
