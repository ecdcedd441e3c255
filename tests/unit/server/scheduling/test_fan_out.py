from __future__ import annotations

import asyncio

import pytest
from judged_server.scheduling.concurrency import fan_out


async def test_does_every_job_with_a_bound_and_returns_the_results_in_order():
    running = most = 0

    async def work(job: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(1 + job % 3):
            await asyncio.sleep(0)
        running -= 1
        return -job

    assert await fan_out(work, range(100), 7) == [-job for job in range(100)]
    assert (most, running) == (7, 0)


async def test_takes_jobs_only_as_they_can_be_done():
    taken = []
    gate = asyncio.Event()

    def jobs():
        for job in range(1000):
            taken.append(job)
            yield job

    async def work(_: int) -> None:
        await gate.wait()

    going = asyncio.create_task(fan_out(work, jobs(), 5))
    while len(taken) < 5:  # noqa: ASYNC110 - the jobs are taken, not told of
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert taken == [0, 1, 2, 3, 4]
    gate.set()
    await going
    assert len(taken) == 1000


async def test_the_first_failure_ends_the_others_and_is_raised():
    ended = []

    async def work(job: int) -> None:
        if job == 2:
            raise ValueError("two")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append(job)
            raise

    with pytest.raises(ValueError, match="two"):
        await fan_out(work, range(10), 3)
    assert sorted(ended) == [0, 1]


@pytest.mark.parametrize("at_once", [1, 2])
async def test_a_job_that_nobody_cancelled_is_not_passed_over(at_once):
    async def work(job: int) -> None:
        if job == 1:
            raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="stray CancelledError"):
        await fan_out(work, range(3), at_once)


@pytest.mark.parametrize("at_once", [1, 2])
async def test_a_caller_who_leaves_ends_the_jobs(at_once):
    ended = []

    async def work(job: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(job)

    going = asyncio.create_task(fan_out(work, range(10), at_once))
    for _ in range(5):
        await asyncio.sleep(0)
    going.cancel()
    with pytest.raises(asyncio.CancelledError):
        await going
    assert sorted(ended) == list(range(at_once))
