from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from judged.v1 import judge_service_pb2 as pb
from judged_server.http_api.call_context import HttpContext


def peer(transport: Any) -> str:
    request: Any = SimpleNamespace(headers={}, transport=transport)

    async def write(_: object) -> None:
        """Write nothing."""

    return HttpContext(request, pb.GetUsageRequest.FromString, 1, write).peer()


def connection(peername: object) -> Any:
    return SimpleNamespace(get_extra_info=lambda _: peername)


def test_connections_of_a_unix_socket_are_callers_of_their_own():
    one, other = connection(""), connection("")
    assert peer(one) == peer(one) != peer(other)
    assert peer(one).startswith("unix:")


def test_those_of_tcp_have_the_names_that_grpc_gives():
    assert peer(connection(("127.0.0.1", 7))) == "ipv4:127.0.0.1:7"
    assert peer(connection(("::1", 7, 0, 0))) == "ipv6:[::1]:7"
