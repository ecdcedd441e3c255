from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.transport.breaker import (
    FAILED_OF_WINDOW,
    FIRST_COOL_DOWN_S,
    LEAST_COOL_DOWN_S,
    LONGEST_COOL_DOWN_S,
    WINDOW,
    Breaker,
    Permit,
)

from tests.fakes.still_clock import StillClock

DOWN = ProviderFault(Reason.PROVIDER_ERROR, "down", retryable=True, status=500)
NO_KEY = ProviderFault(Reason.PROVIDER_REFUSED_KEY, "bad key", retryable=False, status=401)


def closed() -> tuple[Breaker, StillClock]:
    """A breaker that knows its provider and has long got to full speed."""
    clock = StillClock()
    breaker = Breaker("p", clock)
    breaker.succeeded(breaker.begin())
    clock.seconds += 10
    breaker.succeeded(breaker.begin())
    return breaker, clock


def opened() -> tuple[Breaker, StillClock]:
    breaker, clock = closed()
    for _ in range(WINDOW):
        if not breaker.is_open:
            breaker.failed(breaker.begin(), DOWN)
    assert breaker.is_open
    return breaker, clock


def test_opens_when_nearly_all_of_the_last_requests_failed():
    breaker, _ = closed()
    permits = [breaker.begin() for _ in range(WINDOW)]
    for permit in permits[: FAILED_OF_WINDOW - 1]:
        breaker.failed(permit, DOWN)
    assert not breaker.is_open
    breaker.failed(permits[-1], DOWN)
    assert breaker.is_open
    assert breaker.cause is DOWN


def test_fast_failures_do_not_outrun_answers_that_are_under_way():
    """One of five fails at once, the others answer later: the share is one of five all the time."""
    breaker, _ = closed()
    under_way: list[Permit] = []
    for number in range(500):
        permit = breaker.begin()
        if number % 5 == 0:
            breaker.failed(permit, DOWN)
        else:
            under_way.append(permit)
        if len(under_way) > 32:
            breaker.succeeded(under_way.pop(0))
        assert not breaker.is_open


@pytest.mark.parametrize("together", [1, 15, 17, 32, 512])
def test_failures_that_take_as_long_as_answers_open_it_however_many_are_under_way(together: int):
    breaker, _ = closed()
    under_way = [breaker.begin() for _ in range(together)]
    for _ in range(WINDOW):
        breaker.failed(under_way.pop(0), DOWN)
        if breaker.is_open:
            break
        under_way.append(breaker.begin())
    assert breaker.is_open


def test_late_failures_count_for_nothing_beside_later_answers():
    breaker, _ = closed()
    late = [breaker.begin() for _ in range(WINDOW)]
    for _ in range(WINDOW):
        breaker.succeeded(breaker.begin())
    for permit in late:
        breaker.failed(permit, DOWN)
    assert not breaker.is_open


def test_one_request_finds_out_about_a_provider_that_nobody_has_asked():
    breaker = Breaker("p", StillClock())
    first = breaker.begin()
    assert breaker.waits_for_first
    assert math.isinf(breaker.wait_s())
    breaker.succeeded(first)
    assert breaker.wait_s() == 0
    assert not breaker.waits_for_first


def test_a_first_request_that_is_late_is_not_waited_for():
    breaker = Breaker("p", StillClock())
    first = breaker.begin()
    breaker.stop_waiting_for_first()
    assert breaker.wait_s() == 0
    assert not breaker.begin().probe
    breaker.failed(first, DOWN)
    assert not breaker.is_open


def test_a_first_request_that_fails_opens():
    breaker = Breaker("p", StillClock())
    breaker.failed(breaker.begin(), DOWN)
    assert breaker.wait_s() == FIRST_COOL_DOWN_S


def test_requests_come_back_a_few_at_a_time_and_then_all():
    breaker, clock = opened()
    clock.seconds += FIRST_COOL_DOWN_S
    breaker.succeeded(breaker.begin())
    begun = [0] * 8
    start = clock.seconds
    while clock.seconds < start + 0.8 and sum(begun) < 5000:
        clock.seconds += max(breaker.wait_s(), 1e-4)
        begun[min(int((clock.seconds - start) * 10), 7)] += 1
        breaker.begin()
    assert begun[0] <= 10
    assert all(later > before for before, later in pairwise(begun[:5]))
    assert breaker.wait_s() == 0


def test_probes_come_at_a_quarter_of_the_outage_within_bounds():
    breaker, clock = opened()
    began, waits = clock.seconds, []
    while clock.seconds < began + 600:
        waits.append(breaker.wait_s())
        clock.seconds += waits[-1]
        assert not breaker.is_open
        breaker.failed(breaker.begin(), DOWN)
    assert waits[:3] == [FIRST_COOL_DOWN_S, LEAST_COOL_DOWN_S, LEAST_COOL_DOWN_S]
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_COOL_DOWN_S


def test_half_open_lets_one_probe_through():
    breaker, clock = opened()
    clock.seconds += FIRST_COOL_DOWN_S
    probe = breaker.begin()
    assert probe.probe
    assert math.isinf(breaker.wait_s())
    breaker.succeeded(probe)
    assert not breaker.begin().probe


def test_a_cancelled_probe_leaves_room_for_the_next():
    breaker, clock = opened()
    clock.seconds += FIRST_COOL_DOWN_S
    breaker.dropped(breaker.begin())
    assert breaker.wait_s() == 0
    assert breaker.begin().probe


def test_a_refused_key_is_said_at_once_and_asked_about_more_and_more_seldom():
    clock = StillClock()
    breaker = Breaker("p", clock)
    for cool_down in (5, 10, 20, 40, 60, 60):
        breaker.failed(breaker.begin(), NO_KEY)
        fault = breaker.refusal()
        assert fault is not None
        assert fault is not NO_KEY
        assert (fault.reason, fault.attempts) == (Reason.PROVIDER_REFUSED_KEY, 0)
        clock.seconds += cool_down - 0.01
        assert breaker.refusal() is not None
        clock.seconds += 0.02
        assert breaker.refusal() is None
    breaker.succeeded(breaker.begin())
    assert breaker.cause is None


def test_others_are_refused_while_one_asks_about_the_key():
    clock = StillClock()
    breaker = Breaker("p", clock)
    breaker.failed(breaker.begin(), NO_KEY)
    clock.seconds += 5.01
    probe = breaker.begin()
    assert breaker.refusal() is not None
    breaker.dropped(probe)
    assert breaker.refusal() is None


def test_calls_from_before_it_opened_change_nothing():
    breaker, clock = closed()
    old = [breaker.begin() for _ in range(20)]
    for permit in old[20 - WINDOW :]:
        breaker.failed(permit, DOWN)
    assert breaker.is_open
    breaker.succeeded(old[0])
    assert breaker.is_open
    clock.seconds += FIRST_COOL_DOWN_S
    probe = breaker.begin()
    breaker.failed(old[1], DOWN)
    breaker.dropped(old[2])
    assert breaker.is_open, "the probe is still out"
    breaker.succeeded(probe)
    assert not breaker.is_open


@given(
    st.lists(st.tuples(st.sampled_from(["ok", "down", "key", "drop", "wait"]), st.integers(0, 9)))
)
def test_whatever_happens_a_probe_is_alone_and_the_provider_is_asked_again(steps):
    clock = StillClock()
    breaker = Breaker("p", clock)
    out: list[Permit] = []
    probes: list[Permit] = []
    for step, place in steps:
        if step == "wait":
            clock.seconds += 10.0 * place
        elif out and place < len(out):
            permit = out.pop(place)
            if step == "ok":
                breaker.succeeded(permit)
            elif step in {"down", "key"}:
                breaker.failed(permit, DOWN if step == "down" else NO_KEY)
            else:
                breaker.dropped(permit)
        elif breaker.wait_s() == 0 and breaker.refusal() is None:
            out.append(breaker.begin())
        probes = [permit for permit in out if permit.probe]
        assert len({permit.generation for permit in probes}) == len(probes)
    for permit in out:
        breaker.dropped(permit)
    clock.seconds += 61
    assert breaker.wait_s() == 0
    assert breaker.refusal() is None


@pytest.mark.parametrize("fault", [DOWN, NO_KEY])
def test_a_fault_may_be_final_for_a_while(fault: ProviderFault):
    breaker, _ = closed()
    breaker.failed(breaker.begin(), fault, refuse=True)
    told = breaker.refusal()
    assert told is not None
    assert told.message == fault.message
