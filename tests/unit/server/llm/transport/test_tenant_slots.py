"""The places of a tenant at a provider: never more, all of them used, none of another's."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.transport.endpoint import TenantSlots
from judged_server.tenant import Tenant, serve

from tests.fakes.still_clock import StillClock

FOR_EVER = 1e6


class World:
    """Questions of tenants that take places and keep them until they are told."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.slots = TenantSlots("p", self.clock)
        self.there: list[str] = []

    def ask(
        self, tenant: Tenant, ends: float = FOR_EVER
    ) -> tuple[asyncio.Task[None], asyncio.Event]:
        done = asyncio.Event()

        async def ask() -> None:
            serve(tenant)
            async with self.slots.place(ends):
                self.there.append(tenant.name)
                try:
                    await done.wait()
                finally:
                    self.there.remove(tenant.name)

        return asyncio.create_task(ask()), done


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


TWO = Tenant("two", provider_slots=2)


async def test_a_tenant_has_so_many_there_and_the_next_in_order():
    world = World()
    asked = [world.ask(TWO) for _ in range(4)]
    others = [world.ask(Tenant("free")) for _ in range(5)]
    await turns()
    assert world.there.count("two") == 2
    assert world.there.count("free") == 5
    asked[0][1].set()
    await turns()
    assert asked[0][0].done()
    assert world.there.count("two") == 2
    for _, done in (*asked, *others):
        done.set()
    await asyncio.gather(*(task for task, _ in (*asked, *others)))
    assert world.there == []


async def test_who_can_wait_no_longer_is_told_why():
    world = World()
    held = [world.ask(TWO) for _ in range(2)]
    await turns()
    late, _ = world.ask(TWO, ends=world.clock.now())
    with pytest.raises(ProviderFault, match="provider_slots") as fault:
        await late
    assert (fault.value.reason, fault.value.attempts) == (Reason.TIMEOUT, 0)
    for task, done in held:
        done.set()
        await task


@given(
    st.lists(st.tuples(st.sampled_from(["ask", "end", "cancel"]), st.integers(0, 9)), max_size=40)
)
@example([*[("ask", 0)] * 4, ("end", 1), ("end", 0), ("cancel", 3)])
def test_no_order_of_events_takes_more_places_or_keeps_one(events):
    async def run() -> None:
        world = World()
        asked: list[tuple[asyncio.Task[None], asyncio.Event]] = []
        for event, number in events:
            if event == "ask":
                asked.append(world.ask(TWO))
            elif asked and event == "end":
                asked[number % len(asked)][1].set()
            elif asked:
                asked[number % len(asked)][0].cancel()
            if number % 2:
                await turns()
            assert len(world.there) <= 2
        for _, done in asked:
            done.set()
        for task, _ in asked:
            with suppress(asyncio.CancelledError):
                await task
        again = [world.ask(TWO) for _ in range(2)]
        await turns()
        assert world.there == ["two", "two"], "no place is kept"
        for task, done in again:
            done.set()
            await task
        assert world.slots._places == {}

    asyncio.run(run())
