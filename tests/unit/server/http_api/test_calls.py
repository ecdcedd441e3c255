"""Calls by HTTP: who makes them, and streams that are silent for long, on a real port."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from aiohttp import ClientSession
from judged.v1 import judge_service_pb2 as pb
from judged_server.address import Address
from judged_server.api.listeners import Listener
from judged_server.http_api import port as calls
from judged_server.http_api.port import METHODS, HttpCall, HttpPort
from judged_server.settings import Settings


def test_callers_are_told_apart_by_their_connections():
    """Those of a Unix socket too: what fair turns are shared by."""

    def peer(transport: object) -> str:
        request: Any = SimpleNamespace(headers={}, transport=transport)
        return HttpCall(request, METHODS["/v1/GetUsage"], Settings.model_construct()).peer()

    def connection(peername: object) -> object:
        return SimpleNamespace(get_extra_info=lambda _: peername)

    one, other = connection(""), connection("")
    assert peer(one) == peer(one) != peer(other)
    assert peer(one).startswith("unix:")
    assert peer(connection(("127.0.0.1", 7))) == "ipv4:127.0.0.1:7"
    assert peer(connection(("::1", 7, 0, 0))) == "ipv6:[::1]:7"


class SilentStream:
    """Has a handler that writes one event, and the last one when it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    def handler(self) -> Any:
        async def handle(_: object, context: Any) -> None:
            await context.read()
            await context.write(pb.ScoreAnswersResponse(started={}))
            await self.go_on.wait()
            await context.write(pb.ScoreAnswersResponse(summary={}))

        return grpc.stream_stream_rpc_method_handler(handle)


async def test_a_silent_stream_says_that_it_is_there(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calls, "SIGN_OF_LIFE_S", 0.01)
    silent, service = SilentStream(), "judged.v1.JudgeService"
    handlers = {service: {"ScoreAnswers": silent.handler()}}
    listener = Listener(Address("127.0.0.1", 0))
    port = HttpPort(listener, handlers, Settings.model_construct(), lambda: True)
    await port.open()
    try:
        async with (
            ClientSession() as session,
            session.post(f"http://{port.address}/v1/ScoreAnswers", json={}) as reply,
        ):
            assert await reply.content.readline() == b"event: started\n"
            while await reply.content.readline() != b": working\n":
                pass
            silent.go_on.set()
            rest = await reply.content.read()
            assert b"event: summary\n" in rest
    finally:
        await port.close()
