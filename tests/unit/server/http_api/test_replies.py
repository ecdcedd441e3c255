"""Streams that are silent for long, on a real port with a handler in place of a service."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from aiohttp import ClientSession
from judged.v1 import judge_service_pb2 as pb
from judged_server.address import Address
from judged_server.api.listening.listeners import Listener
from judged_server.http_api import replies
from judged_server.http_api.calls import HttpCalls, methods_of
from judged_server.http_api.port import HttpPort

SERVICE = pb.DESCRIPTOR.services_by_name["JudgeService"]


class SilentStream(grpc.GenericRpcHandler):
    """Has a handler that writes one event, and the last one when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        async def handle(_: object, context: Any) -> None:
            await context.read()
            await context.write(pb.ScoreAnswersResponse(started={}))
            await self.go_on.wait()
            await context.write(pb.ScoreAnswersResponse(summary={}))

        return grpc.stream_stream_rpc_method_handler(handle)


async def test_a_silent_stream_says_that_it_is_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replies, "SIGN_OF_LIFE_S", 0.01)
    handler, calls = SilentStream(), HttpCalls(1 << 16, 30.0)
    calls.add_generic_rpc_handlers([handler])
    listener = Listener(Address("127.0.0.1", 0))
    port = HttpPort(listener, calls, methods_of([SERVICE]), lambda: True)
    await port.open()
    try:
        async with (
            ClientSession() as session,
            session.post(f"http://{port.address}/v1/ScoreAnswers", json={}) as reply,
        ):
            assert await reply.content.readline() == b"event: started\n"
            while await reply.content.readline() != b": working\n":
                pass
            handler.go_on.set()
            rest = await reply.content.read()
            assert b"event: summary\n" in rest
    finally:
        await port.close()
