"""Messages on their way: none waits for another, and what holds too much gives way."""

from __future__ import annotations

import asyncio

import pytest
from judged_server.api import requests
from judged_server.api.requests import STEP_BYTES, STRANGER, Admission, Arrivals
from judged_server.errors import Overloaded
from judged_server.process import Memory, Pressure
from judged_server.tenant import Sender

LARGEST = 4 * STEP_BYTES


class World:
    """Messages that never end by themselves, and looks at them that come when a test wants them."""

    def __init__(self, room: int, process: Memory | None = None) -> None:
        self.process = process or Memory()
        self.arrivals = Arrivals(Admission(room * LARGEST, self.process), LARGEST)
        self.tasks: list[asyncio.Task[object]] = []

    async def send(self, name: str, count: int = 1, *, by_stranger: bool = False) -> None:
        sender = STRANGER if by_stranger else Sender(name)
        self.tasks += [
            asyncio.create_task(self.arrivals.receive(asyncio.Event().wait, sender), name=name)
            for _ in range(count)
        ]
        await asyncio.sleep(0)

    async def look(self, times: int = 10) -> list[str]:
        """Look so many times; return whose messages gave way, the first one first."""
        gone: list[str] = []
        for _ in range(times):
            self.arrivals._look()
            for _ in range(3):
                await asyncio.sleep(0)
            for task in [task for task in self.tasks if task.done()]:
                assert isinstance(task.exception(), Overloaded)
                gone.append(task.get_name())
                self.tasks.remove(task)
        return gone


@pytest.fixture(autouse=True)
def looks_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "LOOK_S", 3600.0)


async def test_who_has_most_on_its_way_gives_way():
    world = World(3)
    await world.send("light")
    await world.send("busy", 5)
    await world.send("other")
    assert await world.look() == ["busy"] * 4
    await world.send("new")
    assert await world.look() == ["new"]
    assert [task.get_name() for task in world.tasks] == ["light", "busy", "other"]


async def test_strangers_give_way_first_and_their_oldest():
    world = World(3)
    await world.send("tenant", 2)
    await world.send("s1", by_stranger=True)
    await world.look(1)
    await world.send("s2", by_stranger=True)
    assert await world.look() == ["s1"]


async def test_one_gives_way_at_each_look_while_the_process_is_short_of_memory():
    world = World(10)
    await world.send("busy", 3)
    await world.send("light")
    await world.look(2)
    world.process.pressure = Pressure.HIGH
    assert await world.look(1) == ["busy"]
    assert await world.look(1) == ["busy"]
    world.process.pressure = Pressure.NONE
    assert await world.look() == []
