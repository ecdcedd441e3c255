from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.retrying import MAX_TRIES, Retrier, RetryBudget, retry_after_s

from tests.fakes.still_clock import StillClock

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def failing(*, retryable: bool = True, attempts: int = 1, wait: float | None = None):
    fault = ProviderFault(Reason.PROVIDER_ERROR, "no", retryable=retryable, attempts=attempts)
    fault.retry_after_s = wait
    return fault


class Attempts:
    """Raises the given faults in turn, then answers."""

    def __init__(self, *faults: ProviderFault) -> None:
        self.faults = list(faults)
        self.left: list[float] = []

    async def __call__(self, left_s: float) -> str:
        self.left.append(left_s)
        if self.faults:
            raise self.faults.pop(0)
        return "answer"


async def test_the_number_of_requests_is_told():
    for failures in range(MAX_TRIES):
        attempts = Attempts(*(failing() for _ in range(failures)))
        done = await Retrier(StillClock(), Random(1)).run(attempts, 100.0)
        assert done == ("answer", failures + 1)


async def test_each_try_gets_the_time_that_is_left():
    attempts = Attempts(failing(wait=10.0), failing(wait=20.0))
    await Retrier(StillClock(), Random(1)).run(attempts, 100.0)
    assert attempts.left == [100.0, 90.0, 70.0]


@pytest.mark.parametrize(
    ("faults", "sent"),
    [
        ([failing(retryable=False)], 1),
        ([failing() for _ in range(MAX_TRIES)], MAX_TRIES),
        ([failing(attempts=0)], 0),
    ],
)
async def test_what_is_not_tried_again(faults, sent):
    clock = StillClock()
    with pytest.raises(ProviderFault) as caught:
        await Retrier(clock, Random(1)).run(Attempts(*faults), 100.0)
    assert caught.value.attempts == sent
    assert len(clock.slept) == max(0, sent - 1)


async def test_a_call_held_back_after_a_failure_tells_of_the_failure():
    first = failing()
    held = ProviderFault(Reason.BREAKER_OPEN, "open", retryable=True, attempts=0)
    with pytest.raises(ProviderFault) as caught:
        await Retrier(StillClock(), Random(1)).run(Attempts(first, held), 100.0)
    assert caught.value is first
    assert caught.value.attempts == 1


@pytest.mark.parametrize(("wait", "sent"), [(7.4, 2), (7.6, 1)])
async def test_a_quarter_of_the_time_must_be_left(wait, sent):
    attempts = Attempts(failing(wait=wait), failing(retryable=False))
    with pytest.raises(ProviderFault) as caught:
        await Retrier(StillClock(), Random(1)).run(attempts, 10.0)
    assert caught.value.attempts == sent


async def test_waits_are_random_up_to_a_bound_that_doubles():
    waits: list[list[float]] = [[], []]
    for seed in range(200):
        clock = StillClock()
        await Retrier(clock, Random(seed)).run(Attempts(failing(), failing()), 100.0)
        for place, wait in enumerate(clock.slept):
            waits[place].append(wait)
    for seen, bound in zip(waits, (0.5, 1.0), strict=True):
        assert 0 <= min(seen) < 0.05 * bound
        assert 0.95 * bound < max(seen) <= bound


async def test_retries_are_a_tenth_of_all_calls_in_the_long_run():
    retrier = Retrier(StillClock(), Random(1))
    sent = 0
    for _ in range(1000):
        with pytest.raises(ProviderFault) as caught:
            await retrier.run(Attempts(*(failing() for _ in range(5))), 100.0)
        sent += caught.value.attempts
    assert 1099 <= sent <= 1111


@given(st.lists(st.booleans(), max_size=200))
def test_the_budget_is_never_overdrawn(calls):
    budget = RetryBudget(most=3.0, share=0.1)
    earned = taken = 0
    for call in calls:
        if call:
            budget.earn()
            earned += 1
        else:
            taken += budget.take()
    assert taken <= 3 + 0.1 * earned + 1e-9


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
