"""Turns go by sender and size, none is lost to a cancel, and nobody waits while nobody has one."""

import asyncio

import pytest
from judged_server.api.listening.receiving import TURN_BYTES, Turns
from judged_server.tenant import Sender, send_as


async def order_of(calls: list[tuple[str, int]]) -> list[str]:
    """Return who had turns in which order, of calls that all came while another had one."""
    turns, order = Turns(), list[str]()

    async def call(name: str, size: int) -> None:
        send_as(Sender(name))
        async with turns.turn(size):
            order.append(name)

    async with turns.turn(1):
        waiting = [asyncio.create_task(call(*each)) for each in calls]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    return order


async def test_turns_go_by_sender():
    busy, light = ("busy", TURN_BYTES), ("light", TURN_BYTES)
    assert await order_of([busy] * 4 + [light] * 2) == [
        *("busy", "light", "busy", "light", "busy", "busy")
    ]


async def test_who_has_little_to_read_has_many_turns_for_one_of_much():
    much, little = ("busy", 8 * TURN_BYTES), ("light", TURN_BYTES // 4)
    found = await order_of([much] * 3 + [little] * 8)
    assert found == ["busy", *["light"] * 8, "busy", "busy"]


@pytest.mark.parametrize("turn_has_come", [True, False])
async def test_a_cancel_loses_no_turn(turn_has_come):
    turns, had = Turns(), asyncio.Event()

    async def call() -> None:
        async with turns.turn(1):
            had.set()

    async with turns.turn(1):
        first, second = (asyncio.create_task(call()) for _ in range(2))
        await asyncio.sleep(0)
        if not turn_has_come:
            first.cancel()
            await asyncio.wait({first})
    first.cancel()
    await asyncio.wait_for(second, 60)
    assert had.is_set()
    async with asyncio.timeout(60), turns.turn(1):
        pass
