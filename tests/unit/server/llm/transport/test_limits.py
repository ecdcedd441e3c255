"""What holds requests to a provider back: its rate, its window, its breaker."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.chat import ProviderFault, Reason
from judged_server.llm.transport.endpoint import (
    COOL_DOWNS_S,
    WINDOW,
    Breaker,
    Rate,
    Turn,
    retry_after_s,
)

from tests.fakes.still_clock import StillClock

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DOWN = ProviderFault(Reason.PROVIDER_ERROR, "down", retryable=True, status=500)
NO_KEY = ProviderFault(Reason.PROVIDER_REFUSED_KEY, "bad key", retryable=False, status=401)


class TestRate:
    @given(
        st.floats(1, 1e4),
        st.lists(st.tuples(st.floats(0, 5), st.floats(1, 500)), min_size=1, max_size=60),
    )
    def test_no_minute_sees_more_than_the_rate_a_moment_of_it_and_a_call(self, per_minute, calls):
        clock = StillClock()
        rate = Rate(None, per_minute, clock)
        gone: list[tuple[float, float]] = []
        for pause, amount in calls:
            clock.seconds += pause
            clock.seconds += rate.wait_s + 1e-9
            rate.pay(1, amount)
            gone.append((clock.seconds, amount))
        largest = max(amount for _, amount in gone)
        for start, _ in gone:
            seen = sum(amount for at, amount in gone if start <= at <= start + 60)
            assert seen <= per_minute + max(per_minute / 600, 1.0) + largest + 1e-3


def begin(breaker: Breaker, numbers: Iterator[int] = count(1)) -> Turn:  # noqa: B008 - one count
    number = next(numbers)
    return Turn(number, 0, breaker.begin(number))


def opened() -> tuple[Breaker, StillClock]:
    clock = StillClock()
    breaker = Breaker("p", clock)
    for _ in range(WINDOW):
        if not breaker.is_open:
            breaker.failed(begin(breaker), DOWN)
    assert breaker.is_open
    return breaker, clock


def test_probes_come_more_and_more_seldom_within_bounds():
    breaker, clock = opened()
    began, waits = clock.seconds, []
    while clock.seconds < began + 600:
        waits.append(breaker.wait_s)
        clock.seconds += waits[-1]
        assert not breaker.is_open
        breaker.failed(begin(breaker), DOWN)
    assert waits[:3] == pytest.approx([0.5, 0.75, 1.125])
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == COOL_DOWNS_S


def test_calls_from_before_it_opened_change_nothing():
    clock = StillClock()
    breaker = Breaker("p", clock)
    old = [begin(breaker) for _ in range(20)]
    for permit in old[20 - WINDOW :]:
        breaker.failed(permit, DOWN)
    assert breaker.is_open
    breaker.succeeded(old[0])
    assert breaker.is_open
    clock.seconds += COOL_DOWNS_S[0]
    probe = begin(breaker)
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
    out: list[Turn] = []
    probes: list[Turn] = []
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
        elif breaker.wait_s == 0 and breaker.refusal() is None:
            out.append(begin(breaker))
        probes = [permit for permit in out if permit.probe]
        assert len({permit.number for permit in probes}) == len(probes)
    for permit in out:
        breaker.dropped(permit)
    clock.seconds += 61
    assert breaker.wait_s == 0
    assert breaker.refusal() is None


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("value", "seconds"),
        [
            (None, None),
            ("", None),
            ("3", 3.0),
            (" 3 ", 3.0),
            ("1.5", 1.5),
            ("-1", None),
            ("nan", None),
            ("inf", None),
            ("1e400", None),
            ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
            (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
            ("Sun, 01 Mar 2026 01:01:30 +0100", 90.0),
            ("Sun, 01 Mar 2026 00:01:30", 90.0),
            ("Sun, 99 Foo 2026", None),
        ],
    )
    def test_forms(self, value, seconds):
        assert retry_after_s(value, NOW) == seconds
