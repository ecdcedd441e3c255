"""What the server's channel options let connections do, and what those of clients must agree on."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from judged._transport.channel import OPTIONS
from judged_server.api.listeners import (
    CALLS_OF_A_CONNECTION,
    SHORTEST_PING_MS,
    connection_options,
)

OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


def test_our_clients_ping_more_seldom_than_the_server_allows():
    assert int(dict(OPTIONS)["grpc.keepalive_time_ms"]) >= 2 * SHORTEST_PING_MS


class Held(grpc.GenericRpcHandler):
    """Has a call that is held until it is opened, and one that is answered."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.full = asyncio.Event()
        self.in_work = self.most = 0

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        held = handler_call_details.method == "/a/Held"
        return grpc.unary_unary_rpc_method_handler(self._held if held else self._answered)

    async def _held(self, request: bytes, context: object) -> bytes:
        self.in_work += 1
        self.most = max(self.most, self.in_work)
        if self.in_work == CALLS_OF_A_CONNECTION:
            self.full.set()
        await self.open.wait()
        self.in_work -= 1
        return request

    async def _answered(self, request: bytes, context: object) -> bytes:
        return request


async def test_a_connection_has_so_many_calls_in_work_and_others_are_served():
    server, held = grpc.aio.server(options=connection_options(1 << 20)), Held()
    server.add_generic_rpc_handlers((held,))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    async with (
        grpc.aio.insecure_channel(address, options=OWN_CONNECTION) as greedy,
        grpc.aio.insecure_channel(address, options=OWN_CONNECTION) as other,
    ):
        await greedy.unary_unary("/a/Answered")(b"")  # it knows the limit from then on
        calls: list[asyncio.Future[bytes]] = [
            asyncio.ensure_future(greedy.unary_unary("/a/Held")(b"", timeout=60))
            for _ in range(2 * CALLS_OF_A_CONNECTION)
        ]
        await asyncio.wait_for(held.full.wait(), 30)
        for _ in range(50):
            assert await other.unary_unary("/a/Answered")(b"x", timeout=30) == b"x"
        assert held.most == CALLS_OF_A_CONNECTION
        held.open.set()
        assert await asyncio.gather(*calls) == [b""] * len(calls)
    await server.stop(0)
