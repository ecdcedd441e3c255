"""Departures: work begins in order, never early, and waits for nobody."""

import asyncio
import time

import pytest

from benchmarks.load.departures import depart


async def test_each_begins_when_it_is_due_and_never_before():
    started, told, begun = time.perf_counter(), [], []

    async def work(due: float) -> float:
        begun.append(time.perf_counter())
        told.append(due)
        return due

    instants = [0.0, 0.0, 0.0031, 0.0105]
    results = await depart(started, instants, work)
    assert told == results == [started + instant for instant in instants]
    assert all(at >= due for at, due in zip(begun, told, strict=True))


async def test_what_takes_long_holds_up_nobody():
    other_began = asyncio.Event()

    async def work(due: float) -> float:
        if due == started:
            await asyncio.wait_for(other_began.wait(), 30)
        else:
            other_began.set()
        return due

    started = time.perf_counter()
    assert await depart(started, [0.0, 0.002], work) == [started, started + 0.002]


async def test_an_instant_that_has_passed_is_late_and_not_lost():
    async def work(due: float) -> float:
        return time.perf_counter() - due

    late = await depart(time.perf_counter() - 5.0, [0.0, 1.0], work)
    assert late[0] >= 5
    assert late[1] >= 4


async def test_a_failure_is_raised():
    async def work(_: float) -> None:
        raise ValueError("as the work said")

    with pytest.raises(ValueError, match="as the work said"):
        await depart(time.perf_counter(), [0.0, 0.001], work)
