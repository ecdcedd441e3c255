"""Providers that are busy, broken, silent or refuse the key: what must come of a call."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from email.utils import format_datetime
from random import Random

import pytest
from judged_server.llm.chat import Completed, Reason
from judged_server.llm.transport.endpoint import Clock

from tests.fakes.providers.faulty_http import (
    Connection,
    always,
    faulty_http,
    reply,
)
from tests.fakes.still_clock import BEGIN, StillClock
from tests.faults.providers.provider import (
    GOOD,
    REQUEST,
    a_moment,
    fault_of,
    hang,
    hang_after_headers,
    hang_in_the_body,
    in_turn,
    models_at,
)


def date(seconds: int) -> str:
    return format_datetime(datetime.fromtimestamp(BEGIN.timestamp() + seconds, UTC), usegmt=True)


class TestRetryAfter:
    @pytest.mark.parametrize(
        ("header", "lowest", "highest"),
        [
            ("Retry-After: 7", 7, 7),
            (f"Retry-After: {date(9)}", 9, 9),
            ("Retry-After: 86400", 60, 60),
            ("Retry-After: soon", 0, 1),
        ],
    )
    @pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
    async def test_is_kept_within_bounds(self, header, lowest, highest, status):
        clock = StillClock()
        began = clock.seconds
        async with (
            faulty_http(in_turn(reply(b"{}", status, header), GOOD)) as server,
            models_at(server.url, clock) as model,
        ):
            done = await model.complete(REQUEST, 100.0)
        assert done.attempts == 2
        assert lowest <= clock.seconds - began <= highest + 1.1

    async def test_longer_than_the_call_may_take_is_not_waited_for(self):
        clock = StillClock()
        late = reply(b"{}", "429 Too Many Requests", "Retry-After: 12")
        async with faulty_http(always(late)) as server, models_at(server.url, clock) as model:
            fault = await fault_of(model, 11.0)
        assert (fault.reason, fault.retryable, fault.attempts) == (Reason.RATE_LIMITED, True, 1)
        assert fault.retry_after_s == 12

    async def test_an_account_without_money_is_not_asked_again(self):
        poor = reply(b'{"error":{"code":"insufficient_quota"}}', "429 Too Many Requests")
        async with faulty_http(always(poor)) as server, models_at(server.url) as model:
            fault = await fault_of(model)
        assert (fault.reason, fault.retryable, fault.attempts) == (Reason.RATE_LIMITED, False, 1)


class TestServerErrors:
    @pytest.mark.parametrize("status", ["500 Oh", "502 Bad Gateway", "503 Busy", "408 Slow"])
    async def test_are_tried_as_long_as_there_is_time(self, status):
        clock = StillClock()
        bad = reply(b"{}", status)
        async with faulty_http(always(bad)) as server, models_at(server.url, clock) as model:
            fault = await fault_of(model, 60.0)
        assert (fault.reason, fault.retryable) == (Reason.PROVIDER_ERROR, True)
        assert 3 < fault.attempts == len(server.requests) < 40
        assert clock.seconds > 1040.0

    @pytest.mark.parametrize("status", [400, 404, 413, 422])
    async def test_of_ours_are_not_tried_again(self, status):
        bad = reply(b"{}", f"{status} No")
        async with faulty_http(always(bad)) as server, models_at(server.url) as model:
            fault = await fault_of(model)
        assert (fault.reason, fault.retryable) == (Reason.PROVIDER_ERROR, False)
        assert fault.status == status
        assert len(server.requests) == 1

    async def test_an_outage_is_waited_for_by_all_at_a_few_probes(self):
        """Twenty seconds of the clock without an answer: all calls are answered in the end."""
        clock = StillClock()

        async def behave(connection: Connection) -> None:
            down = clock.seconds < 1020.0
            await connection.send(reply(b"{}", "500 Oh") if down else GOOD)

        async with faulty_http(behave) as server, models_at(server.url, clock) as model:
            done = await asyncio.gather(*(model.complete(REQUEST, 3600.0) for _ in range(300)))
        assert len(done) == 300
        assert len(server.requests) <= 390  # all, a window of them twice, and the probes
        assert sum(one.attempts for one in done) == len(server.requests)

    async def test_a_call_whose_time_is_over_before_the_next_probe_is_told_at_once(self):
        clock = StillClock()
        async with (
            faulty_http(always(reply(b"{}", "500 Oh"))) as server,
            models_at(server.url, clock) as model,
        ):
            await fault_of(model, 60.0)
            before = len(server.requests)
            fault = await fault_of(model, 1.0)
            assert (fault.reason, fault.retryable, fault.attempts) == (Reason.BREAKER_OPEN, True, 0)
            assert len(server.requests) == before


class TestHanging:
    @pytest.mark.parametrize("behaviour", [hang, hang_after_headers, hang_in_the_body])
    async def test_ends_with_the_attempt(self, behaviour):
        async with (
            faulty_http(behaviour) as server,
            models_at(server.url, timeout_s=0.1) as model,
        ):
            began = time.perf_counter()
            fault = await fault_of(model, 100.0)
            took = time.perf_counter() - began
        assert (fault.reason, fault.retryable, fault.attempts) == (Reason.TIMEOUT, True, 2)
        assert 0.2 <= took < 30

    @pytest.mark.parametrize("behaviour", [hang, hang_after_headers, hang_in_the_body])
    async def test_ends_with_the_call(self, behaviour):
        async with (
            faulty_http(behaviour) as server,
            models_at(server.url, Clock()) as model,
        ):
            began = time.perf_counter()
            fault = await fault_of(model, 0.5)
            took = time.perf_counter() - began
        assert (fault.reason, fault.attempts) == (Reason.TIMEOUT, 1)
        assert took < 10

    @pytest.mark.parametrize("behaviour", [hang, hang_after_headers, hang_in_the_body])
    async def test_ends_at_once_when_cancelled(self, behaviour):
        asked, left = asyncio.Event(), asyncio.Event()

        async def observed(connection: Connection) -> None:
            asked.set()
            await behaviour(connection)
            left.set()

        async with faulty_http(observed) as server, models_at(server.url) as model:
            call = asyncio.create_task(model.complete(REQUEST, 1000.0))
            await asyncio.wait_for(asked.wait(), 60)
            await a_moment()
            call.cancel()
            await asyncio.wait_for(left.wait(), 60)
            with pytest.raises(asyncio.CancelledError):
                await call


class TestKeys:
    @pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
    async def test_refused_is_one_request_a_cool_down(self, status):
        clock = StillClock()
        async with (
            faulty_http(always(reply(b'{"error": "no"}', status))) as server,
            models_at(server.url, clock) as model,
        ):
            await fault_of(model)
            for requests, cool_down in enumerate((5, 7.5, 11.25, 16.875), 1):
                if requests > 1:
                    faults = await asyncio.gather(*(fault_of(model) for _ in range(300)))
                    assert {fault.reason for fault in faults} == {Reason.PROVIDER_REFUSED_KEY}
                    assert not any(fault.retryable for fault in faults)
                    assert sum(fault.attempts for fault in faults) == 1
                assert len(server.requests) == requests
                clock.seconds += cool_down - 0.01
                await fault_of(model)
                assert len(server.requests) == requests
                clock.seconds += 0.02
        assert "key_env or key_file" in faults[0].message


async def test_random_cancels_leave_nothing_behind():
    chance = Random(3)

    async def behave(connection: Connection) -> None:
        await asyncio.sleep(chance.random() * 0.01)
        await connection.send(GOOD)

    async with (
        faulty_http(behave) as server,
        models_at(server.url, Clock(), max_concurrency=8) as model,
    ):
        calls = [asyncio.create_task(model.complete(REQUEST, 100.0)) for _ in range(400)]
        for call in chance.sample(calls, 300):
            await asyncio.sleep(chance.random() * 0.001)
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(end, Completed | asyncio.CancelledError) for end in ended)
        done = await asyncio.gather(*(model.complete(REQUEST, 100.0) for _ in range(8)))
        assert len(done) == 8
        queue = model.endpoint.queue
        assert (queue.window.in_flight, queue.window.limit) == (0, 8)
        assert not [task for task in asyncio.all_tasks() if "models.py" in repr(task)]
