from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.rates import Bucket, Rates

from tests.fakes.still_clock import StillClock


def test_requests_are_spread_over_the_minute():
    clock = StillClock()
    rates = Rates(120, None, clock)
    gone = []
    for _ in range(6):
        clock.seconds += rates.wait_s()
        rates.pay(1, 1000)
        gone.append(round(clock.seconds - 1000.0, 6))
    assert gone == [0, 0, 0.5, 1.0, 1.5, 2.0]


def test_a_large_call_goes_and_those_after_it_wait():
    clock = StillClock()
    rates = Rates(None, 6000, clock)  # 100 a second
    assert rates.wait_s() == 0
    rates.pay(1, 1000)
    assert rates.wait_s() == 9.01
    clock.seconds += 9.01
    assert rates.wait_s() < 1e-9


def test_what_was_not_spent_comes_back():
    rates = Rates(None, 6000, StillClock())
    rates.pay(1, 1000)
    rates.pay(0, 50 - 1000)
    assert rates.wait_s() == 0


def test_no_limit_is_no_wait():
    rates = Rates(None, None, StillClock())
    rates.pay(10**6, 10**9)
    assert rates.wait_s() == 0


@given(
    st.floats(1, 1e4),
    st.lists(st.tuples(st.floats(0, 5), st.floats(1, 500)), min_size=1, max_size=60),
)
def test_no_minute_sees_more_than_the_rate_a_second_of_it_and_a_call(per_minute, calls):
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
        assert seen <= per_minute + max(per_minute / 60, 1.0) + largest + 1e-3
