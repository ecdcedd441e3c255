"""What the server's channel options let connections do, and what those of clients must agree on."""

from __future__ import annotations

from judged._transport.connection import OPTIONS
from judged_server.api.listeners import (
    SHORTEST_PING_MS,
)


def test_our_clients_ping_more_seldom_than_the_server_allows():
    assert int(dict(OPTIONS)["grpc.keepalive_time_ms"]) >= 2 * SHORTEST_PING_MS
