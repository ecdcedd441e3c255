from __future__ import annotations

from judged_server.llm.transport.rates import ConcurrencyLimit


def filled(maximum: int) -> tuple[ConcurrencyLimit, list[int]]:
    limit = ConcurrencyLimit(maximum)
    return limit, [limit.begin() for _ in range(maximum)]


def fill(limit: ConcurrencyLimit) -> None:
    while limit.has_room:
        limit.begin()


def test_no_more_than_the_limit_begin():
    limit, _ = filled(4)
    assert not limit.has_room
    limit.ended()
    assert limit.has_room


def test_pressure_halves_once_for_the_calls_under_way():
    limit, numbers = filled(32)
    for number in numbers:
        limit.pressed(number)
    assert (limit.limit, limit.in_flight) == (16, 0)
    limit.pressed(limit.begin())
    assert limit.limit == 8


def test_pressure_leaves_what_a_known_rate_needs_and_never_adds():
    limit, numbers = filled(32)
    limit.pressed(numbers[0], least=20)
    assert limit.limit == 20
    limit.pressed(limit.begin(), least=500)
    assert limit.limit == 20


def test_one_call_is_always_let_through():
    limit = ConcurrencyLimit(1)
    for _ in range(5):
        limit.pressed(limit.begin())
    assert limit.limit == 1


def test_a_window_of_successes_at_the_limit_adds_one():
    limit, numbers = filled(8)
    limit.pressed(numbers[0])
    for _ in range(3):
        limit.ended()
    assert (limit.limit, limit.in_flight) == (4, 4)
    for expected in (4, 4, 4, 5):
        limit.succeeded()
        assert limit.limit == expected
        fill(limit)
    for _ in range(200):
        limit.succeeded()
        fill(limit)
    assert limit.limit == 8, "and never more than the maximum"


def test_successes_below_the_limit_add_nothing():
    limit, numbers = filled(8)
    for number in numbers:
        limit.pressed(number)
    for _ in range(100):
        limit.begin()
        limit.succeeded()
    assert limit.limit == 4
