"""Requests as they arrive: how large, read where, and whether there is room for them.

What messages hold on their way and in work is bounded in `admission`, how much work a model takes
in `scheduling.admission`.

A small message is parsed at once. A large one, or one that is compressed, stays bytes until there
is room for it: it is inflated and parsed on a thread, above INLINE_BYTES one after the other, so
that other calls go on in between; callers take turns. gRPC itself would inflate it on the event
loop, whatever it becomes (40 messages of 15 kB that inflate to 15 MB held up health checks for
13 s); it is told not to, see `connections`.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError

from judged_server import errors
from judged_server.api.listening.admission import Admission, Arrivals, memory_of
from judged_server.audit import call_notes
from judged_server.scheduling.concurrency import INLINE_BYTES
from judged_server.scheduling.fair_threads import FairThreads
from judged_server.tenant import current_tenant
from judged_server.usecases.tenant_rates import TenantRates

COUNTED_BYTES = 1 << 13
"""The fields of messages above are counted; what a smaller one takes is little beside its call."""

_GZIP = b"\x1f\x8b"
"""How a gzip stream begins, and no protobuf message does: there is no wire type 7."""
_GZIP_FORMAT = 16 + zlib.MAX_WBITS

# By default 0: were gRPC to parse messages in another context some day, calls would still work.
_received: ContextVar[tuple[int, int]] = ContextVar("received", default=(0, 0))


def received_bytes() -> int:
    """Return the size of the message that the call in work received (last), uncompressed.

    A message does not know its size: it would be written anew to tell it.
    """
    return _received.get()[0]


def received_memory() -> int:
    """Return the memory that this message takes in work."""
    return _received.get()[1]


def _note(size: int, fields: int) -> None:
    _received.set((size, memory_of(size, fields)))
    if (notes := call_notes.get()) is not None:
        notes.request_bytes += size


Result = TypeVar("Result")


class Unread:
    """A message whose bytes are not parsed yet, and perhaps compressed."""

    __slots__ = ("_count", "_deserialize", "_raw")

    def __init__(
        self, raw: bytes, deserialize: Callable[[bytes], Any], count: Callable[[bytes], int]
    ) -> None:
        self._raw = raw
        self._deserialize = deserialize
        self._count = count

    def size(self, most: int) -> int:
        """Return the size of the message, uncompressed: what a compressed one says of itself.

        Raises LimitExceeded above `most`.
        """
        if not self._raw.startswith(_GZIP):
            return len(self._raw)
        # A gzip stream ends with the size of what it was made of (RFC 1952, 2.3.1), modulo 2^32.
        size = int.from_bytes(self._raw[-4:], "little")
        if size > most:
            raise errors.LimitExceeded("message", "bytes when inflated", most, size)
        return size

    def drop(self) -> None:
        """Let go of the bytes now: who knows the message may live on for a while."""
        self._raw = b""

    def inflated(self, size: int) -> int:
        """Inflate the message and return how many fields it has; runs on a thread.

        Raises MalformedMessage, and LimitExceeded for too many.
        """
        if self._raw.startswith(_GZIP):
            inflater = zlib.decompressobj(_GZIP_FORMAT)
            try:
                self._raw = inflater.decompress(self._raw, size + 1)
            except zlib.error:
                raise _malformed() from None
            if len(self._raw) != size or not inflater.eof or inflater.unused_data:
                raise _malformed()
        return self._count(self._raw)

    def read(self) -> Any:  # noqa: ANN401 - any request message
        """Return the message, once it is inflated; runs on a thread. Raises MalformedMessage."""
        try:
            return self._deserialize(self._raw)
        except (DecodeError, UnicodeDecodeError, ValueError):
            raise _malformed() from None


def lenient(
    deserialize: Callable[[bytes], Any],
    count: Callable[[bytes], int],
    inline_bytes: int = INLINE_BYTES,
) -> Callable[[bytes], Any]:
    """Return a parser for gRPC: what does not parse is an error to raise later, not at once.

    Fewer than `inline_bytes` are parsed at once. `count` says how many fields a message has.
    """

    def parse(raw: bytes) -> Any:  # noqa: ANN401 - any request message
        if len(raw) >= inline_bytes or raw.startswith(_GZIP):
            return Unread(raw, deserialize, count)
        try:
            _note(len(raw), count(raw) if len(raw) > COUNTED_BYTES else 0)
            return deserialize(raw)
        except errors.JudgedError as error:
            return error
        except (DecodeError, UnicodeDecodeError, ValueError):
            return _malformed()

    return parse


class Receiver:
    """Receives the messages of all calls of a server."""

    def __init__(
        self, admission: Admission, max_message_bytes: int, rates: TenantRates | None = None
    ) -> None:
        self._admission = admission
        self._rates = rates or TenantRates()
        self._most = max_message_bytes
        self._arrivals = Arrivals(admission, max_message_bytes)
        self._unread = Admission(0, admission.process)
        """Counts the bytes of messages whose fields are not counted yet."""
        self._threads = FairThreads("receive", 1)

    async def first(self, read: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - any message
        """Return the message of a call that has one, which `read` receives.

        Raises MalformedMessage, LimitExceeded, Overloaded, and TenantLimit.
        """
        self._admission.check_pressure(0)
        message = await self._arrivals.receive(read)
        # A call without its message is none.
        if message is grpc.aio.EOF:
            raise _malformed()
        if current_tenant().tokens_per_second is not None:
            self._charge(message)
        return await self.parsed(message)

    async def strangers(self, read: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
        """Return the message of a call that wants no credential, such as a health check."""
        message = await self._arrivals.receive(read, by_stranger=True)
        if isinstance(message, Unread):
            try:
                size = message.size(INLINE_BYTES)
                if size > INLINE_BYTES:
                    raise errors.LimitExceeded("message", "bytes", INLINE_BYTES, size)
                message.inflated(size)
                return message.read()
            finally:
                message.drop()
        return await self.parsed(_malformed() if message is grpc.aio.EOF else message)

    async def each(self, messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the messages of a stream, as they are asked for, no faster than the tenant may.

        One for which there is no room waits, as the stream's caller does.
        """
        async for message in messages:
            await self._rates.pace(self._size(message))
            yield await self.parsed(message, waits=True)

    async def parsed(self, message: Any, *, waits: bool = False) -> Any:  # noqa: ANN401
        """Return a received message, read if it is not yet.

        Raises MalformedMessage, LimitExceeded, and Overloaded when there is no room for it, unless
        it waits for that.
        """
        if isinstance(message, errors.JudgedError):
            raise message
        if not isinstance(message, Unread):
            return message
        try:
            size = message.size(self._most)
            self._unread.max_pending_bytes = self._admission.max_pending_bytes
            with await _room(self._unread, size, waits):
                fields = await self._on_thread(size, partial(message.inflated, size))
            with await _room(self._admission, memory_of(size, fields), waits):
                parsed = await self._on_thread(size, message.read)
        finally:
            message.drop()
        _note(size, fields)
        return parsed

    async def _on_thread(self, size: int, work: Callable[[], Result]) -> Result:
        if size < INLINE_BYTES:
            return await asyncio.to_thread(work)
        return await self._threads.run(work)

    def _charge(self, message: Any) -> None:  # noqa: ANN401 - any message
        """Count a message against the rate of its tenant, or let go of it. Raises TenantLimit."""
        try:
            self._rates.charge(self._size(message))
        except errors.TenantLimit:
            if isinstance(message, Unread):
                message.drop()
            raise

    def _size(self, message: Any) -> int:  # noqa: ANN401 - any message
        return message.size(self._most) if isinstance(message, Unread) else received_bytes()


async def _room(admission: Admission, memory: int, waits: bool) -> ExitStack:
    return await admission.wait_for_room(memory) if waits else admission.admit(memory)


def _malformed() -> errors.MalformedMessage:
    return errors.MalformedMessage(
        "the bytes are not this call's request message, or a string in it is not UTF-8"
    )
