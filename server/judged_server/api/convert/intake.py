"""Takes the groups of a message in: read in place when they are few, off the event loop otherwise.

What makes a group good is in `judging`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from judged.v1 import types_pb2

from judged_server.api.convert.judging import read_groups
from judged_server.api.limits import RequestLimits
from judged_server.domain import QueryGroup

LARGE_BYTES = 2 << 20
LARGE_GROUPS = 300
"""A message above either takes more than a few milliseconds to read,"""
LARGE_GOLDEN_BYTES = 1 << 17
"""and so does one above this with spans or metadata: 10 bytes of a span cost as many as 1,000 of
a text."""


async def take_groups(
    messages: Sequence[types_pb2.QueryGroup], size: int, limits: RequestLimits, field: str
) -> list[QueryGroup]:
    """Return the groups of a message of `size` bytes. Raises as `read_groups` does."""
    large = size > LARGE_BYTES or len(messages) > LARGE_GROUPS
    if not large and size > LARGE_GOLDEN_BYTES:
        large = any(message.HasField("spans") or message.metadata for message in messages)
    if not large:
        return read_groups(messages, limits, field, size)
    return await asyncio.to_thread(read_groups, messages, limits, field, size)
