"""Turns of the event loop: so many begin in each, in order, and those who leave take none."""

import asyncio

import pytest
from judged_server.llm.inflight import StartLimiter


async def begun_by_turn(tasks_of, most, count):
    """Return which of `count` pieces of work began in each turn of the loop."""
    turns, begun = StartLimiter(most), []

    async def work(number):
        await turns.begin()
        begun.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(count)]
    tasks_of(tasks)
    by_turn = []
    while not all(task.done() for task in tasks):
        await asyncio.sleep(0)
        by_turn.append(begun.copy())
        begun.clear()
    return [some for some in by_turn if some]


@pytest.mark.parametrize(("most", "count"), [(1, 1), (1, 5), (3, 3), (3, 10), (32, 1000)])
async def test_so_many_begin_in_each_turn_first_come_first_served(most, count):
    by_turn = await begun_by_turn(lambda _: None, most, count)
    assert max(map(len, by_turn)) == most
    assert len(by_turn) <= -(-count // most)
    assert [number for some in by_turn for number in some] == list(range(count))


async def test_those_who_leave_take_no_turn_from_others():
    turns, begun = StartLimiter(2), []

    async def work(number):
        await turns.begin()
        begun.append(number)

    tasks = [asyncio.create_task(work(number)) for number in range(12)]
    await asyncio.sleep(0)
    for task in tasks[2:8]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert begun == [0, 1, 8, 9, 10, 11]
    await asyncio.wait_for(turns.begin(), 5)


async def test_after_a_pause_there_is_room_at_once():
    turns = StartLimiter(1)
    for _ in range(3):
        coroutine = turns.begin()
        with pytest.raises(StopIteration):  # without waiting for anything
            coroutine.send(None)
        for _ in range(2):
            await asyncio.sleep(0)
