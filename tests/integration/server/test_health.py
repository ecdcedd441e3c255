"""Health checks, with handlers of our own in a real server of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub
from judged_server.api.interceptor import CallInterceptor
from judged_server.api.listeners import JUDGE, Services
from judged_server.api.requests import Admission, Receiver
from judged_server.settings import Settings

CALLS, TRIES = 200, 30
OVERTAKEN = 20
"""Calls that a check goes before. One or two it does even in their line: their messages may come
later than its own."""
SERVING = health_pb2.HealthCheckResponse.SERVING


class Order:
    """Notes in which order calls come to their handlers."""

    def __init__(self) -> None:
        self.came: list[str] = []

    async def GetServerInfo(self, request: Any, context: Any) -> Any:
        self.came.append("info")
        return pb.GetServerInfoResponse()

    async def Check(self, request: Any, context: Any) -> Any:
        self.came.append("health")
        return health_pb2.HealthCheckResponse(status=SERVING)


@pytest.fixture
async def server() -> AsyncIterator[tuple[Order, str]]:
    running = grpc.aio.server()
    receiver = Receiver(Admission(1 << 28), 1 << 24)
    interceptor = CallInterceptor(Settings.model_construct(), receiver)
    order: Any = Order()
    # Without a limit, as health checks are: else calls wait for their turn to receive as well.
    handlers = dict(interceptor.handlers(JUDGE, order, limited=False))
    finder = grpc.method_handlers_generic_handler(JUDGE.full_name, handlers)
    running.add_generic_rpc_handlers((finder,))
    Services(order, order, interceptor).register_health(running)
    port = running.add_insecure_port("127.0.0.1:0")
    await running.start()
    yield order, f"127.0.0.1:{port}"
    await running.stop(0)


def call_all(address: str) -> None:
    """Send many calls, and a health check after them on the same connection."""
    with grpc.insecure_channel(address) as channel:
        # What waits for a connection is sent in any order.
        grpc.channel_ready_future(channel).result(timeout=60)
        info = JudgeServiceStub(channel).GetServerInfo
        calls = [info.future(pb.GetServerInfoRequest(), timeout=60) for _ in range(CALLS)]
        check = health_pb2_grpc.HealthStub(channel).Check
        assert check(health_pb2.HealthCheckRequest(), timeout=60).status == SERVING
        for call in calls:
            call.result()


async def test_a_health_check_waits_for_no_call_that_came_before_it(server: tuple[Order, str]):
    order, address = server
    for _ in range(TRIES):  # now and then all calls are done before the check is there
        order.came.clear()
        await asyncio.to_thread(call_all, address)
        assert len(order.came) == CALLS + 1
        if order.came.index("health") <= CALLS - OVERTAKEN:
            return
    pytest.fail("it always came after them")
