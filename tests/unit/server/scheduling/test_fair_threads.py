"""Long work of many callers takes turns, gives way, and ends with its caller.

Time is that of a clock which the work itself moves, so the order does not depend on the machine.
"""

import asyncio
import threading
from typing import Any

import pytest
from judged_server.errors import Overloaded
from judged_server.scheduling.concurrency import INTERACTIVE_S, TURN_S, FairThreads
from judged_server.scheduling.fairness import Resource, checkpoint
from judged_server.tenant import SENDER, Sender

WAIT_S = 30
STEP_S = 1.001 * TURN_S
"""So that sums of it are never just below a turn."""


class World:
    """Threads whose work takes one turn a step, and notes each step by its name."""

    def __init__(self, **options: Any) -> None:
        self.seconds = 0.0
        self.threads = FairThreads("test", 1, clock=lambda: self.seconds, **options)
        self.steps: list[str] = []
        self.begun, self.go = threading.Event(), threading.Event()

    def work(self, name: str, steps: int):
        def run() -> str:
            for _ in range(steps):
                checkpoint()
                self.steps.append(name)
                self.seconds += STEP_S
            return name

        return run

    def hold(self) -> str:
        """Hold a thread until all others have come."""
        self.begun.set()
        assert self.go.wait(WAIT_S)
        return "held"

    async def order(self, *calls: tuple[Sender, str, int]) -> str:
        """Return who had the turns, where all came before any of them could begin."""
        held = asyncio.create_task(self.threads.run(self.hold))
        assert await asyncio.to_thread(self.begun.wait, WAIT_S)

        async def call(sender: Sender, name: str, steps: int) -> None:
            SENDER.set(sender)
            assert await self.threads.run(self.work(name, steps)) == name

        tasks = [asyncio.create_task(call(*one)) for one in calls]
        await asyncio.sleep(0)
        self.go.set()
        await asyncio.wait_for(asyncio.gather(held, *tasks), WAIT_S)
        return "".join(self.steps)


async def test_a_light_sender_waits_for_one_turn_of_a_busy_one():
    busy = [(Sender("busy"), "b", 10)] * 5
    assert (await World().order(*busy, (Sender("light"), "l", 3))).startswith("blblblbbb")


async def test_batch_work_waits_behind_what_is_interactive():
    order = await World().order(
        (Sender("a", is_batch=True), "B", 3), (Sender("a"), "i", 3), (Sender("c"), "j", 3)
    )
    assert order == "ijijijBBB"


async def test_what_has_run_for_long_waits_behind_what_has_not():
    steps = round(INTERACTIVE_S / TURN_S)
    order = await World().order((Sender("a"), "L", 5 * steps), (Sender("a"), "s", 3))
    assert order.index("s") <= steps + 2
    assert "sss" in order.replace("L", "")
    assert order.endswith("L" * 3 * steps)


async def test_no_more_work_is_begun_than_there_are_threads_for_it():
    world = World(most_begun=2)
    order = await world.order(*((Sender(name), name, 3) for name in "abcdef"))
    assert sorted(order) == sorted("abcdef" * 3)
    for place in range(len(order)):
        assert sum(order.index(n) <= place < order.rindex(n) for n in "abcdef") <= 2


async def test_work_that_waits_for_its_turn_ends_with_its_caller():
    world = World()
    stopped = threading.Event()

    def endless() -> None:
        world.begun.set()
        try:
            while True:
                checkpoint()
                world.seconds += STEP_S
        finally:
            stopped.set()

    first = asyncio.create_task(world.threads.run(endless))
    assert await asyncio.to_thread(world.begun.wait, WAIT_S)
    SENDER.set(Sender("other"))
    assert await asyncio.wait_for(world.threads.run(world.work("x", 3)), WAIT_S) == "x"
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert await asyncio.to_thread(stopped.wait, WAIT_S)


async def test_work_that_has_not_begun_is_never_begun_for_a_caller_who_has_gone():
    world = World()
    held = asyncio.create_task(world.threads.run(world.hold))
    assert await asyncio.to_thread(world.begun.wait, WAIT_S)
    waiting = asyncio.create_task(world.threads.run(world.work("never", 1)))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    world.go.set()
    await held
    assert await world.threads.run(world.work("next", 1)) == "next"
    assert world.steps == ["next"]


async def test_work_whose_turn_comes_too_late_is_never_begun():
    world = World(resource=Resource("a machine", 100.0, 1e6))
    world.threads.admission.measured(100, 1.0, 1, full=True)
    held = asyncio.create_task(world.threads.run(world.hold))
    assert await asyncio.to_thread(world.begun.wait, WAIT_S)
    late = asyncio.create_task(world.threads.run(world.work("late", 1), 50, deadline=1.0))
    in_time = asyncio.create_task(world.threads.run(world.work("in time", 1), 50, deadline=1.5))
    await asyncio.sleep(0)
    world.seconds = 0.8
    world.go.set()
    with pytest.raises(Overloaded):
        await late
    assert (await held, await in_time, world.steps) == ("held", "in time", ["in time"])
