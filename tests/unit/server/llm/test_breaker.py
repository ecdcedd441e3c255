from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.breaker import (
    FAILURES_IN_A_ROW,
    FIRST_COOL_DOWN_S,
    LONGEST_COOL_DOWN_S,
    Breaker,
    Pass,
)
from judged_server.llm.faults import ProviderFault, Reason

from tests.fakes.still_clock import StillClock

DOWN = ProviderFault(Reason.PROVIDER_ERROR, "down", retryable=True, status=500)
NO_KEY = ProviderFault(Reason.PROVIDER_REFUSED_KEY, "bad key", retryable=False, status=401)


def opened(fault: ProviderFault = DOWN) -> tuple[Breaker, StillClock]:
    clock = StillClock()
    breaker = Breaker("p", clock)
    for _ in range(FAILURES_IN_A_ROW if fault is DOWN else 1):
        breaker.failed(breaker.admit(), fault)
    return breaker, clock


def is_open(breaker: Breaker) -> bool:
    try:
        breaker.refuse_if_open()
    except ProviderFault:
        return True
    return False


def test_opens_after_failures_in_a_row():
    breaker = Breaker("p", StillClock())
    for _ in range(FAILURES_IN_A_ROW - 1):
        breaker.failed(breaker.admit(), DOWN)
    breaker.succeeded(breaker.admit())
    for _ in range(FAILURES_IN_A_ROW - 1):
        breaker.failed(breaker.admit(), DOWN)
    assert not is_open(breaker)
    breaker.failed(breaker.admit(), DOWN)
    with pytest.raises(ProviderFault) as caught:
        breaker.admit()
    assert (caught.value.reason, caught.value.attempts) == (Reason.BREAKER_OPEN, 0)
    assert caught.value.retryable


def test_opens_at_once_for_a_refused_key_and_says_so():
    breaker, _ = opened(NO_KEY)
    with pytest.raises(ProviderFault, match="bad key") as caught:
        breaker.admit()
    assert caught.value is not NO_KEY
    assert (caught.value.reason, caught.value.status) == (Reason.PROVIDER_REFUSED_KEY, 401)


def test_the_cool_down_doubles_up_to_its_bound_and_starts_again():
    breaker, clock = opened()
    expected = FIRST_COOL_DOWN_S
    for _ in range(8):
        clock.seconds += expected - 0.01
        assert is_open(breaker)
        clock.seconds += 0.02
        breaker.failed(breaker.admit(), DOWN)
        expected = min(2 * expected, LONGEST_COOL_DOWN_S)
    clock.seconds += LONGEST_COOL_DOWN_S
    breaker.succeeded(breaker.admit())
    for _ in range(FAILURES_IN_A_ROW):
        breaker.failed(breaker.admit(), DOWN)
    clock.seconds += FIRST_COOL_DOWN_S
    assert not is_open(breaker)


def test_half_open_lets_one_probe_through():
    breaker, clock = opened()
    clock.seconds += FIRST_COOL_DOWN_S
    probe = breaker.admit()
    assert probe.probe
    assert is_open(breaker)
    breaker.succeeded(probe)
    assert not breaker.admit().probe


def test_a_cancelled_probe_leaves_room_for_the_next():
    breaker, clock = opened()
    clock.seconds += FIRST_COOL_DOWN_S
    breaker.dropped(breaker.admit())
    assert breaker.admit().probe


def test_calls_from_before_it_opened_change_nothing():
    breaker = Breaker("p", clock := StillClock())
    old = [breaker.admit() for _ in range(20)]
    for leave in old[:FAILURES_IN_A_ROW]:
        breaker.failed(leave, DOWN)
    clock.seconds += FIRST_COOL_DOWN_S - 1
    for leave in old[FAILURES_IN_A_ROW:]:
        breaker.failed(leave, DOWN)
    breaker.succeeded(old[0])
    assert is_open(breaker)
    clock.seconds += 1
    probe = breaker.admit()
    breaker.failed(old[1], DOWN)
    breaker.dropped(old[2])
    assert is_open(breaker), "the probe is still out"
    breaker.succeeded(probe)
    assert not is_open(breaker)


@given(st.lists(st.tuples(st.sampled_from(["ok", "down", "drop", "wait"]), st.integers(0, 9))))
def test_whatever_happens_a_probe_is_alone_and_the_provider_is_asked_again(steps):
    breaker, clock = Breaker("p", StillClock()), StillClock()
    breaker._clock = clock
    out: list[Pass] = []
    for step, place in steps:
        if step == "wait":
            clock.seconds += 10.0 * place
        elif out and place < len(out):
            leave = out.pop(place)
            if step == "ok":
                breaker.succeeded(leave)
            elif step == "down":
                breaker.failed(leave, DOWN)
            else:
                breaker.dropped(leave)
        elif not is_open(breaker):
            out.append(breaker.admit())
        assert sum(leave.probe and leave.era == breaker._era for leave in out) <= 1
    for leave in out:
        breaker.dropped(leave)
    clock.seconds += LONGEST_COOL_DOWN_S
    assert not is_open(breaker)
