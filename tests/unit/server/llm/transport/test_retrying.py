from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.transport.endpoint import (
    LONGEST_BACKOFF_S,
    MAX_TIMEOUTS,
    MAX_TRIES_BEFORE_FALLBACK,
    Retrier,
)
from judged_server.llm.transport.rates import RateLimits, rate_limits, retry_after_s

from tests.fakes.still_clock import StillClock

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ERROR, LATE = Reason.PROVIDER_ERROR, Reason.TIMEOUT


def failing(
    reason: Reason = ERROR, *, retryable: bool = True, attempts: int = 1, wait: float | None = None
):
    fault = ProviderFault(reason, "no", retryable=retryable, attempts=attempts)
    fault.retry_after_s = wait
    return fault


class Attempts:
    """Raises the given faults in turn, then answers."""

    def __init__(self, *faults: ProviderFault) -> None:
        self.faults = list(faults)

    async def __call__(self) -> str:
        if self.faults:
            raise self.faults.pop(0)
        return "answer"


async def run(clock: StillClock, attempts: Attempts, seconds: float = 100.0, **more):
    unwell = more.pop("unwell", False)
    seed = more.pop("seed", 1)
    retrier = Retrier(clock, Random(seed), lambda: unwell)
    return await retrier.run(attempts, clock.now() + seconds, **more)


async def test_the_number_of_requests_is_told():
    for failures in range(10):
        attempts = Attempts(*(failing() for _ in range(failures)))
        assert await run(StillClock(), attempts) == ("answer", failures + 1)


async def test_a_call_is_tried_as_long_as_it_has_time():
    clock = StillClock()
    with pytest.raises(ProviderFault) as caught:
        await run(clock, Attempts(*(failing() for _ in range(10**4))), 60.0)
    assert caught.value.attempts > 10
    assert 1050 < clock.seconds < 1060


@pytest.mark.parametrize(
    ("faults", "waits", "sent"),
    [
        ([failing(retryable=False)], True, 1),
        ([failing(LATE) for _ in range(5)], True, MAX_TIMEOUTS),
        ([failing(), failing(LATE), failing(), failing(LATE)], True, 4),
        ([failing() for _ in range(5)], False, MAX_TRIES_BEFORE_FALLBACK),
        ([failing(attempts=0)], True, 0),
        ([failing(wait=99.9)], True, 2),
        ([failing(wait=100.1)], True, 1),
    ],
)
async def test_what_is_not_tried_again(faults, waits, sent):
    attempts = Attempts(*faults, failing(retryable=False))
    with pytest.raises(ProviderFault) as caught:
        await run(StillClock(), attempts, waits=waits)
    assert caught.value.attempts == sent


async def test_a_call_held_back_after_a_failure_tells_of_the_failure():
    first = failing()
    held = ProviderFault(Reason.BREAKER_OPEN, "open", retryable=True, attempts=0)
    with pytest.raises(ProviderFault) as caught:
        await run(StillClock(), Attempts(first, held))
    assert caught.value is first
    assert caught.value.attempts == 1


async def test_waits_are_random_up_to_a_bound_that_doubles():
    waits: list[list[float]] = [[] for _ in range(7)]
    for seed in range(200):
        clock = StillClock()
        await run(clock, Attempts(*(failing() for _ in range(7))), seed=seed)
        for place, wait in enumerate(clock.slept):
            waits[place].append(wait)
    bounds = [0.5, 1.0, 2.0, 4.0, 8.0, LONGEST_BACKOFF_S, LONGEST_BACKOFF_S]
    for seen, bound in zip(waits, bounds, strict=True):
        assert 0 <= min(seen) < 0.05 * bound
        assert 0.95 * bound < max(seen) <= bound


async def test_nobody_waits_twice_where_all_requests_wait_anyway():
    clock = StillClock()
    await run(clock, Attempts(failing(wait=5.0), failing()), unwell=True)
    limited = ProviderFault(Reason.RATE_LIMITED, "no", retryable=True, status=429)
    await run(clock, Attempts(limited))
    assert clock.slept == []


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

    @given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, \d+ [A-Z][a-z]{2} \d+ [\d:]+ [-+A-Z\d]+"))
    def test_any_text_is_seconds_or_none(self, value):
        seconds = retry_after_s(value, NOW)
        assert seconds is None or 0 <= seconds < float("inf")


class TestRateLimits:
    @pytest.mark.parametrize(
        ("reset", "seconds"),
        [
            ("1s", 1.0),
            ("6m0s", 360.0),
            ("1h2m3s", 3723.0),
            ("120ms", 0.12),
            ("1.5s", 1.5),
            ((NOW + timedelta(seconds=7)).isoformat(), 7.0),
            ("2020-01-01T00:00:00Z", 0.0),
        ],
    )
    @pytest.mark.parametrize(
        "names",
        ["x-ratelimit-{}-requests", "anthropic-ratelimit-requests-{}"],
    )
    def test_forms(self, names, reset, seconds):
        told = zip(("limit", "remaining", "reset"), ("60", "3", reset), strict=True)
        headers = {names.format(what): value for what, value in told}
        assert rate_limits(headers, lambda: NOW) == RateLimits(60, 3, pytest.approx(seconds))

    @given(st.text(), st.text(), st.text())
    def test_any_text_is_limits_or_none(self, limit, remaining, reset):
        headers = {
            "x-ratelimit-limit-requests": limit,
            "x-ratelimit-remaining-requests": remaining,
            "x-ratelimit-reset-requests": reset,
        }
        found = rate_limits(headers, lambda: NOW)
        assert found is None or (found.remaining >= 0 and 0 <= found.reset_s < float("inf"))

    def test_without_them_nothing_is_told(self):
        assert rate_limits({"Retry-After": "3"}, lambda: NOW) is None
