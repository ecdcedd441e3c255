"""Long work of many callers takes turns, gives way, and ends with its caller.

Time is that of a clock which the work itself moves, so the order does not depend on the machine.
"""

import asyncio
import threading
from typing import Any

import pytest
from judged_server.errors import Overloaded
from judged_server.scheduling.admission import Admission, Resource
from judged_server.scheduling.checkpoint import checkpoint
from judged_server.scheduling.fair_threads import INTERACTIVE_S, TURN_S, FairThreads
from judged_server.tenant import SENDER, Sender

WAIT_S = 30
STEP_S = 1.001 * TURN_S
"""So that sums of it are never just below a turn."""


class World:
    """Threads whose work takes one turn a step, and notes each step by its name."""

    def __init__(
        self, at_once: int = 1, admission: Admission[Any] | None = None, **options: int
    ) -> None:
        self.seconds = 0.0
        self.threads = FairThreads("test", at_once, admission, lambda: self.seconds, **options)
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


class TestAdmission:
    """Of a resource that does 1,000 characters a second, and lets 400 of interactive work in."""

    @pytest.fixture
    async def world(self):
        characters = Resource("judging", 1_000.0, 10_000, 100)
        admission: Admission[Any] = Admission(characters, max_delay_s=0.4)
        world = World(admission=admission)
        for _ in range(100):
            admission.measured(1_000, 1.0, 1, full=True)
        self.held = asyncio.create_task(world.threads.run(world.hold, cost=100))
        assert await asyncio.to_thread(world.begun.wait, WAIT_S)
        yield world
        world.go.set()
        await self.held

    async def call(self, world: World, name: str, cost: int, deadline: float | None = None) -> str:
        SENDER.set(Sender(name))
        return await world.threads.run(world.work(name, 1), cost, deadline)

    async def test_the_newest_call_of_the_busiest_sender_gives_way(self, world):
        busy = [asyncio.create_task(self.call(world, "busy", 100)) for _ in range(3)]
        await asyncio.sleep(0)
        light = asyncio.create_task(self.call(world, "light", 50))
        await asyncio.sleep(0)
        world.go.set()
        with pytest.raises(Overloaded):
            await asyncio.wait_for(busy[2], WAIT_S)
        assert await asyncio.gather(*busy[:2], light) == ["busy", "busy", "light"]

    async def test_who_comes_too_late_to_its_turn_is_refused_then(self, world):
        late = asyncio.create_task(self.call(world, "a", 100, 1.0))
        await asyncio.sleep(0)
        world.seconds = 2.0
        world.go.set()
        with pytest.raises(Overloaded):
            await asyncio.wait_for(late, WAIT_S)
        assert world.steps == []
