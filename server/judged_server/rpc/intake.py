"""Takes the groups of a message in: read in place when they are few, off the event loop otherwise.

Owns that choice. What makes a group good is in `judging_codec`.
"""

from __future__ import annotations

from collections.abc import Sequence

from judged.v1 import types_pb2

from judged_server.domain import QueryGroup
from judged_server.off_loop import off_loop_if
from judged_server.rpc.judging_codec import read_groups
from judged_server.rpc.limits import RequestLimits

LARGE_BYTES = 2 << 20
LARGE_GROUPS = 300
"""A message above either takes more than a few milliseconds to read."""


async def take_groups(
    messages: Sequence[types_pb2.QueryGroup], size: int, limits: RequestLimits, field: str
) -> list[QueryGroup]:
    """Return the groups of a message of `size` bytes. Raises as `read_groups` does."""
    large = size > LARGE_BYTES or len(messages) > LARGE_GROUPS
    return await off_loop_if(large, read_groups, messages, limits, field)
