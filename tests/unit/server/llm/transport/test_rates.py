from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.transport.rates import Bucket, LearntRate, Rates

from tests.fakes.still_clock import StillClock


def test_requests_are_spread_over_the_minute():
    clock = StillClock()
    rates = Rates(120, None, clock)
    gone = []
    for _ in range(6):
        clock.seconds += rates.wait_s()
        rates.pay(1, 1000)
        gone.append(round(clock.seconds - 1000.0, 6))
    assert gone == [0, 0.5, 1.0, 1.5, 2.0, 2.5]


def test_a_large_call_goes_and_those_after_it_wait():
    clock = StillClock()
    rates = Rates(None, 6000, clock)  # 100 a second
    assert rates.wait_s() == 0
    rates.pay(1, 1000)
    assert rates.wait_s() == pytest.approx(9.91)
    clock.seconds += 9.911
    assert rates.wait_s() < 1e-9


def test_what_was_not_spent_comes_back():
    rates = Rates(None, 6000, StillClock())
    rates.pay(1, 1000)
    rates.pay(0, 5 - 1000)
    assert rates.wait_s() == 0


def test_no_limit_is_no_wait():
    rates = Rates(None, None, StillClock())
    rates.pay(10**6, 10**9)
    assert rates.wait_s() == 0


@given(
    st.floats(1, 1e4),
    st.lists(st.tuples(st.floats(0, 5), st.floats(1, 500)), min_size=1, max_size=60),
)
def test_no_minute_sees_more_than_the_rate_a_moment_of_it_and_a_call(per_minute, calls):
    clock = StillClock()
    bucket = Bucket(per_minute, clock)
    gone: list[tuple[float, float]] = []
    for pause, amount in calls:
        clock.seconds += pause
        clock.seconds += bucket.wait_s() + 1e-9
        bucket.pay(amount)
        gone.append((clock.seconds, amount))
    largest = max(amount for _, amount in gone)
    for start, _ in gone:
        seen = sum(amount for at, amount in gone if start <= at <= start + 60)
        assert seen <= per_minute + max(per_minute / 600, 1.0) + largest + 1e-3


def sent_by(clock: StillClock, rate: LearntRate, limit: int, seconds: float) -> list[int]:
    """Send as fast as allowed to a provider that takes `limit` a second; return taken, refused."""
    taken: list[float] = []
    outcome = [0, 0]
    ends = clock.seconds + seconds
    pause_until = 0.0
    while clock.seconds < ends:
        clock.seconds += max(rate.wait_s(), pause_until - clock.seconds, 0.001)
        rate.sent()
        if sum(at > clock.seconds - 1 for at in taken) < limit:
            taken.append(clock.seconds)
            outcome[0] += 1
        else:
            outcome[1] += 1
            rate.refused(clock.seconds, 1.0)
            pause_until = clock.seconds + 1.0
    return outcome


class TestLearntRate:
    def test_nothing_is_learnt_without_a_refusal(self):
        rate = LearntRate(StillClock())
        for _ in range(1000):
            rate.sent()
        assert (rate.wait_s(), rate.per_second()) == (0, None)

    @pytest.mark.parametrize("limit", [2, 10, 50])
    def test_what_a_provider_takes_is_used_and_hardly_exceeded(self, limit):
        clock = StillClock()
        taken, refused = sent_by(clock, LearntRate(clock), limit, 60)
        assert taken >= 0.8 * limit * 60
        assert refused <= 0.05 * taken + 2

    def test_refusals_of_one_burst_are_one_lesson(self):
        clock = StillClock()
        rate = LearntRate(clock)
        sent = []
        for _ in range(15):
            rate.sent()
            sent.append(clock.seconds)
            clock.seconds += 0.01
        for at in sent[10:]:
            rate.refused(at, 1.0)
            clock.seconds += 0.001
        assert rate.per_second() == pytest.approx(9.5)

    def test_a_minute_s_limit_is_told_by_the_pause(self):
        clock = StillClock()
        rate = LearntRate(clock)
        for _ in range(61):
            rate.sent()
            clock.seconds += 0.05
        rate.refused(clock.seconds, 57.0)
        assert rate.per_second() == pytest.approx(1.0, rel=0.05)

    def test_a_refusal_soon_after_another_says_little(self):
        clock = StillClock()
        rate = LearntRate(clock)
        for _ in range(101):
            rate.sent()
        rate.refused(clock.seconds, 1.0)
        first = rate.per_second()
        clock.seconds += 1.0
        rate.sent()
        rate.refused(clock.seconds, 1.0)
        assert first is not None
        assert rate.per_second() == pytest.approx(0.7 * first)

    def test_it_grows_again_when_nothing_is_refused(self):
        clock = StillClock()
        rate = LearntRate(clock)
        rate.sent()
        rate.refused(clock.seconds, 1.0)
        first = rate.per_second()
        assert first is not None
        clock.seconds += 40
        assert rate.per_second() == pytest.approx(2 * first)
        clock.seconds += 1e9
        assert rate.wait_s() == 0

    def test_headers_lower_it_and_never_raise_it(self):
        rate = LearntRate(StillClock())
        rate.told(5.0)
        rate.told(50.0)
        assert rate.per_second() == 5.0
