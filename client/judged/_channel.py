"""The settings of a channel: where to, and what gRPC must not do by itself.

Owns the address rules and the channel options, the same for both clients.
"""

from __future__ import annotations

import os

DEFAULT_TARGET = "127.0.0.1:8470"

OPTIONS: tuple[tuple[str, int], ...] = (
    # Retries are this client's own loop: a service config can't tell a busy server from a message
    # that is too large.
    ("grpc.enable_retries", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # gRPC's own pause between attempts to connect grows to two minutes, in which all calls fail.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),
)


def resolve(target: str | None) -> str:
    """Return the address to call: the one given, else JUDGED_TARGET, else the default port."""
    chosen = target or os.environ.get("JUDGED_TARGET") or DEFAULT_TARGET
    return chosen.strip()
