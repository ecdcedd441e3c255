from __future__ import annotations

import asyncio
from random import Random

import pytest
from judged_server.llm.concurrency import ConcurrencyLimit


def filled(maximum: int) -> tuple[ConcurrencyLimit, list[int]]:
    limit = ConcurrencyLimit(maximum)
    numbers = [limit.try_begin() for _ in range(maximum)]
    assert None not in numbers
    return limit, [number for number in numbers if number is not None]


def test_no_more_than_the_limit_begin():
    limit, _ = filled(4)
    assert limit.try_begin() is None
    limit.ended()
    assert limit.try_begin() is not None


def test_pressure_halves_once_for_the_calls_under_way():
    limit, numbers = filled(32)
    for number in numbers:
        limit.pressed(number)
    assert (limit.limit, limit.in_flight) == (16, 0)
    later = limit.try_begin()
    assert later is not None
    limit.pressed(later)
    assert limit.limit == 8


def test_one_call_is_always_let_through():
    limit = ConcurrencyLimit(1)
    for _ in range(5):
        number = limit.try_begin()
        assert number is not None
        limit.pressed(number)
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
        while limit.try_begin() is not None:
            pass
    for _ in range(200):
        limit.succeeded()
        while limit.try_begin() is not None:
            pass
    assert limit.limit == 8, "and never more than the maximum"


def test_successes_below_the_limit_add_nothing():
    limit, numbers = filled(8)
    for number in numbers:
        limit.pressed(number)
    for _ in range(100):
        assert limit.try_begin() is not None
        limit.succeeded()
    assert limit.limit == 4


async def test_those_who_wait_begin_in_their_order():
    limit, _ = filled(1)
    order: list[int] = []

    async def call(name: int) -> None:
        await limit.begin()
        order.append(name)
        limit.ended()

    calls = [asyncio.create_task(call(name)) for name in range(5)]
    await asyncio.sleep(0)
    assert limit.try_begin() is None
    limit.ended()
    await asyncio.gather(*calls)
    assert order == [0, 1, 2, 3, 4]
    assert limit.in_flight == 0


async def test_a_turn_that_comes_with_a_cancel_goes_to_the_next():
    limit, _ = filled(1)
    first, second = (asyncio.create_task(limit.begin()) for _ in range(2))
    await asyncio.sleep(0)
    limit.ended()  # the first one's turn ...
    first.cancel()  # ... before it could take it
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert limit.in_flight == 1


async def test_a_cancelled_place_in_the_queue_is_passed_over():
    limit, _ = filled(1)
    first, second = (asyncio.create_task(limit.begin()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    limit.ended()  # while the cancelled one is still in the queue
    await second
    assert (limit.in_flight, first.cancelled()) == (1, True)


async def test_random_cancels_lose_no_room():
    chance, limit = Random(5), ConcurrencyLimit(7)
    most = 0

    async def call() -> None:
        nonlocal most
        number = limit.try_begin()
        if number is None:
            number = await limit.begin()
        most = max(most, limit.in_flight)
        end = limit.ended
        try:
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            if chance.random() < 0.8:
                end = limit.succeeded
            elif chance.random() < 0.1:
                limit.pressed(number)
                return
        except BaseException:
            limit.ended()
            raise
        end()

    calls = [asyncio.create_task(call()) for _ in range(2000)]
    for one in chance.sample(calls, 800):
        if chance.random() < 0.05:
            await asyncio.sleep(0)
        one.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert (limit.in_flight, len(limit._waiting)) == (0, 0)
    assert 1 <= most <= 7
