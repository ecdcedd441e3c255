"""Health is asked without a credential: who watches it holds up no drain and takes no memory."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from judged import Client, QueryGroup
from judged_server.api import listeners as health_service
from judged_server.api.listeners import WATCHERS_OF_AN_ADDRESS
from judged_server.errors import Overloaded

from tests.faults.loads import TOLD_DRAINING, drained
from tests.faults.test_connections import HEADERS, PREFACE, SETTINGS, call_headers, frame
from tests.integration.server_process import ServerProcess, running_server, until

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="not run: /proc")

DATA, END_STREAM = 0, 1
CALLS = 60
WATCHES = "/grpc.health.v1.Health/Watch"
SERVICES = ("", "judged.v1.JudgeService", "judged.v1.StatisticsService")
OWN = [("grpc.use_local_subchannel_pool", 1)]
"""Options of a channel with a connection of its own."""
NOWHERE_READ = frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 0))
"""Settings by which the server may send no byte of any reply."""


def watcher_without_window(server: ServerProcess, streams: int = 3) -> socket.socket:
    """Return a connection that watches, and lets the server write nothing."""
    host, _, port = server.address.partition(":")
    opened = socket.create_connection((host, int(port)), timeout=60)
    opened.sendall(PREFACE + NOWHERE_READ)
    for stream, service in zip(range(1, 2 * streams, 2), SERVICES * streams, strict=False):
        message = health_pb2.HealthCheckRequest(service=service).SerializeToString()
        body = b"\0" + struct.pack(">I", len(message)) + message
        opened.sendall(
            frame(HEADERS, 4, stream, call_headers(WATCHES)) + frame(DATA, END_STREAM, stream, body)
        )
    return opened


async def watch(channel: grpc.aio.Channel, raw: bytes, counted: Counter[str]) -> None:
    """Watch for as long as the server lets us; count how it ends."""
    watches: Any = channel.unary_stream(WATCHES)
    try:
        async for _ in watches(raw, timeout=300):
            counted["told"] += 1
    except grpc.aio.AioRpcError as error:
        counted[error.code().name] += 1


@pytest.mark.timeout(300)
def test_a_watcher_that_never_reads_holds_up_no_drain():
    with (
        running_server("--log-level", "warning", "--grace-s", "20") as server,
        watcher_without_window(server),
        watcher_without_window(server),
        grpc.insecure_channel(server.address) as channel,
    ):
        reads = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        assert next(reads).status == health_pb2.HealthCheckResponse.SERVING
        counted = asyncio.run(drained(server, CALLS))
        assert counted.keys() <= {"OK", TOLD_DRAINING}, counted
        assert counted["OK"] >= 5
        assert counted.total() == CALLS
        # One who reads hears it meanwhile.
        assert next(reads).status == health_pb2.HealthCheckResponse.NOT_SERVING
        assert server.process.wait(60) == 0


@pytest.mark.timeout(300)
def test_a_watch_that_is_not_read_ends():
    flags = ("--max-unread-s", "1", "--log-level", "debug")
    with running_server(*flags) as server, watcher_without_window(server, 3):
        until(lambda: server.log_text().count('"DEADLINE_EXCEEDED"') == 3)


async def test_unknown_services_are_told_so_at_once(container: ServerProcess):
    """Also where the name is long: a watch that went on would keep it."""
    counted = Counter[str]()
    async with grpc.aio.insecure_channel(container.address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        for name in ("judged.v1.judgeservice", "judged.v1.JudgeService\0", "é", "x" * 60_000):
            request = health_pb2.HealthCheckRequest(service=name)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Check(request, timeout=60)
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND
            assert name not in str(refused.value.details())
            await watch(channel, request.SerializeToString(), counted)
    assert counted == {"NOT_FOUND": 4}


async def test_watchers_are_counted_in_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(health_service, "WATCHERS", 3)
    health = health_service.Health(())

    def watcher(number: int) -> AsyncIterator[health_pb2.HealthCheckResponse]:
        call: Any = SimpleNamespace(context=SimpleNamespace(peer=lambda: f"ipv4:10.0.0.{number}:1"))
        return health.Watch(health_pb2.HealthCheckRequest(), call)

    for number in range(3):
        assert (await anext(watcher(number))).status == health_pb2.HealthCheckResponse.NOT_SERVING
    with pytest.raises(Overloaded, match="3 in all"):
        await anext(watcher(3))


@pytest.mark.timeout(300)
def test_watchers_are_counted_by_address(container: ServerProcess):
    counted = Counter[str]()

    async def many() -> None:
        async with (
            grpc.aio.insecure_channel(container.address, options=OWN) as first,
            grpc.aio.insecure_channel(container.address, options=OWN) as second,
        ):
            opened = [
                asyncio.create_task(watch(channel, b"", counted))
                for channel in (first, second)
                for _ in range(WATCHERS_OF_AN_ADDRESS // 2 + 20)
            ]
            ended: set[asyncio.Task[None]] = set()
            while len(ended) < 40:
                done, _ = await asyncio.wait({*opened} - ended, return_when="FIRST_COMPLETED")
                ended |= done
            assert counted["RESOURCE_EXHAUSTED"] == 40
            for task in opened:  # whoever leaves makes room
                task.cancel()
            await asyncio.gather(*opened, return_exceptions=True)
            assert counted["told"] == WATCHERS_OF_AN_ADDRESS
            while counted["told"] == WATCHERS_OF_AN_ADDRESS:
                again = asyncio.create_task(watch(first, b"", counted))
                await asyncio.wait({again}, timeout=0.5)
                again.cancel()

    asyncio.run(many())
    with Client(container.address) as client:
        assert client.judge([QueryGroup("q", ["a"], ["a"])], "exact", timeout=60)[0].relevant
    os.kill(container.process.pid, signal.SIGTERM)
    assert container.process.wait(60) == 0
