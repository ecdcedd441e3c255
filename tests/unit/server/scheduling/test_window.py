"""Chunks of a stream, worked on side by side."""

import asyncio

import pytest
from judged_server.scheduling.concurrency import Begun, work_in_window


async def test_what_a_chunk_holds_is_let_go_of_though_its_work_never_began():
    held = []

    async def requests():
        yield begin(1)
        await asyncio.sleep(0)
        yield begin(2)  # begun in the turn of the loop in which the first fails
        await asyncio.Event().wait()

    def begin(number):
        held.append(number)

        async def work():
            if number == 1:
                raise ValueError("no such thing")
            await asyncio.Event().wait()

        return Begun(work(), lambda: held.remove(number))

    with pytest.raises(ValueError, match="no such thing"):
        async for _ in work_in_window(requests(), 4):
            pass
    assert held == []


async def test_what_a_chunk_holds_is_let_go_of_once_it_is_answered():
    ended = []

    async def requests():
        for number in range(5):
            yield begin(number)

    def begin(number):
        async def work():
            return number

        return Begun(work(), lambda: ended.append(number))

    assert sorted([answer async for answer in work_in_window(requests(), 2)]) == [*range(5)]
    assert sorted(ended) == [*range(5)]
