"""Flights: asked once, waited for by many, ended by the last one who leaves."""

import asyncio

from judged_server.scheduling.fairness import SingleFlight

KEY = b"k"


class Question:
    """A question that is answered when told."""

    def __init__(self):
        self.begun = 0
        self.cancelled = 0
        self.answer = asyncio.get_running_loop().create_future()

    async def ask(self):
        self.begun += 1
        try:
            return await asyncio.shield(self.answer)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def turns(n=5):
    for _ in range(n):
        await asyncio.sleep(0)


async def test_the_last_one_who_leaves_ends_the_question_before_it_has_left():
    inflight, question = SingleFlight[float, str](), Question()
    entry = inflight.begin(KEY, 1.0, question.ask)
    waiting = [asyncio.create_task(inflight.wait(entry)) for _ in range(3)]
    await turns()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert all(task.cancelled() for task in waiting)
    assert question.cancelled == 1
    assert entry.task.done()
    assert len(inflight._flights) == 0


async def test_one_who_comes_while_it_is_ended_does_not_find_it():
    inflight, question = SingleFlight[float, str](), Question()
    entry = inflight.begin(KEY, 1.0, question.ask)
    waiting = asyncio.create_task(inflight.wait(entry))
    await turns()
    waiting.cancel()
    await asyncio.sleep(0)
    assert inflight.find(KEY) is None
    again = inflight.begin(KEY, 1.0, question.ask)
    await asyncio.gather(waiting, return_exceptions=True)
    assert inflight.find(KEY) is again
    question.answer.set_result("a")
    assert await inflight.wait(again) == "a"


async def test_a_short_time_ends_for_one_and_not_for_the_others():
    inflight, question = SingleFlight[float, str](), Question()
    entry = inflight.begin(KEY, 9.0, question.ask)
    waits = asyncio.create_task(inflight.wait(entry))
    await turns()
    assert await inflight.wait(entry, 0.001) is None
    assert question.cancelled == 0
    question.answer.set_result("a")
    assert await waits == "a"


async def test_ten_thousand_random_leaves_leave_nothing_behind():
    import random

    rng = random.Random(20)
    inflight = SingleFlight[float, str]()
    live = 0

    async def ask():
        nonlocal live
        live += 1
        try:
            for _ in range(rng.randrange(6)):
                await asyncio.sleep(0)
            return "a"
        finally:
            live -= 1

    async def caller():
        key = rng.randrange(20).to_bytes(1, "big")
        entry = inflight.find(key) or inflight.begin(key, 1.0, ask)
        assert await inflight.wait(entry) == "a"

    before = len(asyncio.all_tasks())
    for _ in range(100):
        callers = [asyncio.create_task(caller()) for _ in range(100)]
        for _ in range(rng.randrange(8)):
            await asyncio.sleep(0)
        for task in callers:
            task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        assert all(task.cancelled() or task.exception() is None for task in callers)
    await turns()
    assert (len(inflight._flights), live) == (0, 0)
    assert len(asyncio.all_tasks()) == before


async def test_closing_ends_work_that_has_not_taken_its_first_step():
    flights, question = SingleFlight[float, str](), Question()
    waiting = asyncio.create_task(flights.wait(flights.begin(KEY, 1.0, question.ask)))
    await asyncio.sleep(0)
    again = flights.begin(b"other", 1.0, question.ask)
    other = asyncio.create_task(flights.wait(again))
    await flights.close()
    found = await asyncio.gather(waiting, other, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in found)
    assert len(flights._flights) == 0


async def test_work_goes_on_alone_for_its_grace_and_is_found_again():
    flights, question = SingleFlight[float, str](grace_s=60.0), Question()
    first = asyncio.create_task(flights.wait(flights.begin(KEY, 60.0, question.ask)))
    await turns()
    first.cancel()
    await turns()
    flight = flights.find(KEY)
    assert flight is not None
    again = asyncio.create_task(flights.wait(flight))
    await turns()
    question.answer.set_result("a")
    assert await again == "a"
    assert question.cancelled == 0
