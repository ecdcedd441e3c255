"""What gRPC lets the connections of a server do: messages, calls at once, pings.

What the calls may hold together is bounded in `receiving`.
"""

from __future__ import annotations

CALLS_OF_A_CONNECTION = 256
"""Calls in work on one connection; clients know, and let further ones wait on their side."""

CALLS_TO_BEGIN = 4096
"""Calls of all connections that were received and not begun; gRPC cancels those beyond. It takes a
burst of many clients, since beginning a call is all that this waits for."""

SHORTEST_PING_MS = 30_000
"""How often a client may ask whether the connection still stands; ours ask once a minute."""

UNASKED_BYTES = 1 << 16
"""What gRPC receives of a message before it is asked for: most are all there by then."""

_IDENTITY_AND_GZIP = 0b101


def connection_options(
    max_message_bytes: int, max_connection_age_s: int = 0
) -> tuple[tuple[str, int], ...]:
    """Return the options of a server whose callers may send messages of at most that size.

    A connection of that age takes no more calls, and ends after its last one; 0 means never.
    """
    age = (("grpc.max_connection_age_ms", 1000 * max_connection_age_s),)
    return (
        *(age if max_connection_age_s else ()),
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", CALLS_OF_A_CONNECTION),
        # Windows grow with messages that are asked for, and not with what the network could carry:
        # else gRPC takes in megabytes of each message that nobody has asked for.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", UNASKED_BYTES),
        # What is compressed comes as it is, and `receiving` inflates it where there is room; it
        # knows gzip, and the other one, deflate, is refused as UNIMPLEMENTED.
        ("grpc.per_message_decompression", 0),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_AND_GZIP),
        # On by default, it counts a call that has just ended as one in work, and so refuses those
        # of a client that keeps to the limit: 243 of 3,000 calls at once, retries included.
        ("grpc.http.overload_protection", 0),
        # By default calls are cancelled at random from 1,000 on, four busy clients.
        ("grpc.server.max_pending_requests", CALLS_TO_BEGIN),
        ("grpc.server.max_pending_requests_hard_limit", CALLS_TO_BEGIN),
        # Without this a client that pings through a call of minutes is cut off as a flood.
        ("grpc.http2.min_ping_interval_without_data_ms", SHORTEST_PING_MS),
    )
