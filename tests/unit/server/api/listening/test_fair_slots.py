"""Places go by sender, none is lost to a cancel, and none is idle while somebody waits."""

import asyncio

import pytest
from judged_server.api.listening.receiving import FairSlots
from judged_server.tenant import Sender, send_as


async def test_places_go_by_sender():
    slots, order = FairSlots(1), []

    async def call(name: str) -> None:
        send_as(Sender(name))
        async with slots:
            order.append(name)

    await slots.acquire()
    calls = [asyncio.create_task(call(name)) for name in ("busy",) * 5 + ("light",) * 2]
    await asyncio.sleep(0)
    slots.release()
    await asyncio.gather(*calls)
    assert order == ["busy", "light", "busy", "light", "busy", "busy", "busy"]
    assert not slots.locked


async def test_one_sender_may_have_all_places():
    slots = FairSlots(3)
    for _ in range(3):
        await slots.acquire()
    assert slots.locked


@pytest.mark.parametrize("turn_has_come", [True, False])
async def test_a_cancel_loses_no_place(turn_has_come):
    slots = FairSlots(1)
    await slots.acquire()
    first, second = (asyncio.create_task(slots.acquire()) for _ in range(2))
    await asyncio.sleep(0)
    if turn_has_come:
        slots.release()
        first.cancel()
    else:
        first.cancel()
        await asyncio.wait({first})
        slots.release()
    await second
    slots.release()
    assert not slots.locked
