"""Cache of the replies of models: in memory, and in a store that outlives the process.

It holds unparsed replies: each use parses them and applies its own threshold.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import PydanticSerializationError

from judged_server.llm.chat import ChatReply, FinishReason, TokenUsage
from judged_server.store.kept_rows import DAY_S, KeptRows, Row

if TYPE_CHECKING:  # its import needs psycopg
    from judged_server.store.postgres import PostgresRows

STORED_WITHIN_S = 0.25
"""How long to wait for a reply to be stored before it is returned anyway."""
_OVERHEAD_BYTES = 800
"""Memory of an entry in addition to its payload: its key and its objects."""


_PAYLOADS = TypeAdapter(ChatReply, config=ConfigDict(strict=True, allow_inf_nan=False))


_DAMAGED = ChatReply("", FinishReason.UNTOLD, TokenUsage(), "", unreadable="it is damaged")


class _Entry(NamedTuple):
    reply: ChatReply
    created: int
    size: int


class ReplyCache:
    """The cached replies of a server. For the event loop's thread."""

    def __init__(
        self,
        memory_bytes: int,
        ttl_s: float = 30 * DAY_S,
        store: KeptRows | PostgresRows | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Keep replies valid for `ttl_s` seconds after they were given, by the clock `now`.

        `store` is a file, or a database in which servers claim questions.
        """
        self._most_bytes = memory_bytes
        self._bytes = 0
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._ttl_s = ttl_s
        self._store = store
        self._now = now

    @property
    def is_away(self) -> bool:
        """Whether the store is shared by several servers and can't be reached now."""
        return self._store is not None and self._store.is_away

    def held(self, key: bytes) -> ChatReply | None:
        """Return the reply in memory under a key."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if not self._counts(entry.created):
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry.reply

    async def stored(self, key: bytes) -> ChatReply | None:
        """Return the reply in the store under a key, or one that is in memory by then."""
        if self._store is None:
            return None
        row = (await self._store.get([key])).get(key)
        reply = self.held(key)
        if reply is None and row is not None and self._counts(row.created):
            reply = from_payload(row.payload)
            if reply is not None:
                self._hold(row, reply)
        return reply

    async def claimed(self, key: bytes, within_s: float) -> ChatReply | None:
        """Return None once this server has claimed a question, or a reply that is stored before.

        After a claim the caller must `keep` a reply or `release` the question. Raises StoreAway,
        and TimeoutError if another server has the claim for all of `within_s`.
        """
        row = None if self._store is None else await self._store.claim(key, within_s)
        if row is None:
            return None
        reply = from_payload(row.payload)
        if reply is None:
            return _DAMAGED
        self._hold(row, reply)
        return reply

    def release(self, key: bytes) -> None:
        """Release the claim of a question, so that another server can ask it."""
        if self._store is not None:
            self._store.release(key)

    async def keep(self, key: bytes, reply: ChatReply, left_s: float) -> bool:
        """Cache a reply in place of an older one; return False if it can't be serialised.

        Waits until it is stored, `left_s` at most, so that a slow disk does not delay the answer.
        """
        payload = to_payload(reply)
        if payload is None:
            return False
        row = Row(key, payload, int(self._now()))
        try:
            if self._store is not None:
                await self._store.keep(row, min(STORED_WITHIN_S, left_s))
        finally:
            # After it is stored, since a reply in memory is returned at once.
            self._hold(row, reply)
        return True

    def close(self) -> None:
        """Store the replies that wait. Not for the event loop's thread."""
        if self._store is not None:
            self._store.close()

    def _counts(self, created: int) -> bool:
        """Return whether a reply given then is still valid."""
        # A time in the future, given before a clock was set back, would never expire.
        return -DAY_S < self._now() - created < self._ttl_s

    def _hold(self, row: Row, reply: ChatReply) -> None:
        self._drop(row.key)
        size = len(row.payload) + _OVERHEAD_BYTES
        self._entries[row.key] = _Entry(reply, row.created, size)
        self._bytes += size
        while self._bytes > self._most_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= entry.size


def to_payload(reply: ChatReply) -> bytes | None:
    """Return a reply as JSON; None for one that can't be read, or holds a lone surrogate."""
    if reply.unreadable:
        return None
    # Estimates and ignored fields are reported only for new replies.
    kept = reply._replace(usage=reply.usage._replace(estimated=False), left_out=())
    try:
        return _PAYLOADS.dump_json(kept)
    except PydanticSerializationError:
        return None


def from_payload(payload: bytes) -> ChatReply | None:
    """Return the reply in a payload; None if the payload is damaged."""
    try:
        return _PAYLOADS.validate_json(payload)
    except ValueError:
        return None
