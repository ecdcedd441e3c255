"""Requests as they arrive: how many at once, how large, the memory that they hold, read where.

A request takes several times its size: its bytes, the message, the texts, what a judge makes of
them. What does not fit is refused at once, with a delay after which to come back, since a queue
that nobody bounds only makes every answer late. Small requests have room that large ones can't use
up. How much work a model takes is bounded in `scheduling.admission`.

gRPC receives a message as soon as a call asks for it, and holds all of it, so no more than a few
calls ask at a time. A small message is parsed at once. A large one, or one that is compressed,
stays bytes until there is room for it: it is inflated and parsed on a thread, one after the other,
so that other calls go on in between. Callers take turns at both. gRPC itself would inflate it on
the event loop, whatever it becomes (40 messages of 15 kB that inflate to 15 MB held up health
checks for 13 s); it is told not to, see `connections`.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from judged_server import errors
from judged_server.audit import call_notes
from judged_server.process.memory import Memory, Pressure
from judged_server.scheduling.round_robin import FairQueue
from judged_server.tenant import current_sender, current_tenant
from judged_server.usecases.tenant_rates import TenantRates

INLINE_BYTES = 1 << 17
"""Messages up to this size are parsed at once, in less than a millisecond."""
WAIT_S = 1.0
"""How long a message waits for its turn to be received: senders that are slow must not hold up all
others, as long as there is memory."""

GROWTH = 5
"""Bytes of memory that a byte of a request takes: 4.3 of one alone, 6 with what is freed late."""
SMALL_BYTES = 1 << 16
LARGE_SHARE = 0.75
"""Of the room, for requests above SMALL_BYTES."""
_RETRY_AFTER_S = 0.25
_MEMORY_BACK_AFTER_S = 1.0

_GZIP = b"\x1f\x8b"
"""How a gzip stream begins, and no protobuf message does: there is no wire type 7."""
_GZIP_FORMAT = 16 + zlib.MAX_WBITS

# By default 0: were gRPC to parse messages in another context some day, calls would still work.
_received: ContextVar[int] = ContextVar("received", default=0)


def received_bytes() -> int:
    """Return the size of the message that the call in work received (last), uncompressed.

    A message does not know its size: it would be written anew to tell it.
    """
    return _received.get()


def _note_size(size: int) -> None:
    _received.set(size)
    if (notes := call_notes.get()) is not None:
        notes.request_bytes += size


class Unread:
    """A message whose bytes are not parsed yet, and perhaps compressed."""

    __slots__ = ("_deserialize", "_raw")

    def __init__(self, raw: bytes, deserialize: Callable[[bytes], Any]) -> None:
        self._raw = raw
        self._deserialize = deserialize

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

    def read(self, size: int) -> Any:  # noqa: ANN401 - any request message
        """Return the message; runs on a thread. Raises MalformedMessage."""
        if self._raw.startswith(_GZIP):
            inflater = zlib.decompressobj(_GZIP_FORMAT)
            try:
                self._raw = inflater.decompress(self._raw, size + 1)
            except zlib.error:
                raise _malformed() from None
            if len(self._raw) != size or not inflater.eof or inflater.unused_data:
                raise _malformed()
        try:
            return self._deserialize(self._raw)
        except (DecodeError, UnicodeDecodeError, ValueError):
            raise _malformed() from None


def lenient(
    deserialize: Callable[[bytes], Any], inline_bytes: int = INLINE_BYTES
) -> Callable[[bytes], Any]:
    """Return a parser for gRPC: what does not parse is an error to raise later, not at once.

    Up to `inline_bytes` are parsed at once.
    """

    def parse(raw: bytes) -> Any:  # noqa: ANN401 - any request message
        if len(raw) > inline_bytes or raw.startswith(_GZIP):
            return Unread(raw, deserialize)
        _note_size(len(raw))
        try:
            return deserialize(raw)
        except (DecodeError, UnicodeDecodeError, ValueError):
            return _malformed()

    return parse


class Admission:
    """Counts the memory of requests against a limit. Used on one event loop."""

    def __init__(self, max_pending_bytes: int, process: Memory | None = None) -> None:
        """Take the most bytes of memory; `process` says how full that of the process is."""
        self._limit = max_pending_bytes
        self._process = process or Memory()
        self._pending = 0
        self._large = 0

    def limit(self, max_pending_bytes: int) -> None:
        """Take another limit from now on; what is in work stays."""
        self._limit = max_pending_bytes

    @property
    def pending_bytes(self) -> int:
        """The memory of all requests in work."""
        return self._pending

    def check_pressure(self, size: int) -> None:
        """Raise Overloaded when the process has too little memory left for a request of `size`."""
        pressure = self._process.pressure
        if pressure is Pressure.CRITICAL or (pressure is Pressure.HIGH and size > SMALL_BYTES):
            raise errors.Overloaded(
                "the server is short of memory; send less at once, or try again later",
                _MEMORY_BACK_AFTER_S,
            )

    def admit(self, size: int) -> Admitted:
        """Hold the memory of a request of `size` bytes for the length of a `with`.

        A large one is always admitted when no other large one is in work, a small one when nothing
        is. Raises Overloaded when it doesn't fit.
        """
        self.check_pressure(size)
        memory, large = size * GROWTH, size > SMALL_BYTES
        fits = self._pending + memory <= self._limit
        if large:
            fits = not self._large or (fits and self._large + memory <= self._limit * LARGE_SHARE)
        elif not self._pending:
            fits = True
        if not fits:
            raise errors.Overloaded(
                f"the requests in work leave no room for this one, which would take {memory} bytes "
                "of memory; send less at once, or try again later",
                _RETRY_AFTER_S,
            )
        self._pending += memory
        if large:
            self._large += memory
        return Admitted(self, size)

    async def wait_for_room(self, size: int) -> Admitted:
        """Do what `admit` does once there is room, however long that takes."""
        while True:
            try:
                return self.admit(size)
            except errors.Overloaded as busy:
                await asyncio.sleep(busy.retry_after_s)

    def release(self, size: int) -> None:
        """Give the memory of a request of `size` bytes back."""
        self._pending -= size * GROWTH
        if size > SMALL_BYTES:
            self._large -= size * GROWTH


class Admitted:
    """Memory that is held until the end of a `with`."""

    __slots__ = ("_admission", "_size")

    def __init__(self, admission: Admission, size: int) -> None:
        self._admission = admission
        self._size = size

    def __enter__(self) -> None:
        """Do nothing: the memory is held already."""

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Let go of it, once."""
        self._admission.release(self._size)


class FairSlots:
    """A semaphore that goes by sender: who has many waiting holds up nobody else.

    Used on one event loop.
    """

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waits = 0
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue(1.0)

    @property
    def locked(self) -> bool:
        """Whether who comes now has to wait."""
        return not self._free

    async def acquire(self) -> None:
        """Return when there is a place for the caller."""
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.put(turn, current_sender())
        self._waits += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the turn came together with the cancel
            raise
        finally:
            self._waits -= 1

    def release(self) -> None:
        """Give a place back, to whose turn it is."""
        while self._waits and (turn := self._waiting.take(1.0)) is not None:
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    async def __aenter__(self) -> None:
        await self.acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Receiver:
    """Receives the messages of all calls of a server."""

    def __init__(
        self,
        admission: Admission,
        max_message_bytes: int,
        at_once: int,
        rates: TenantRates | None = None,
    ) -> None:
        """Receive first messages of at most `at_once` calls at a time."""
        self._admission = admission
        self._rates = rates or TenantRates()
        self._most = max_message_bytes
        self._slots = FairSlots(at_once)
        self._reading = FairSlots(1)

    async def first(self, read: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - any message
        """Return the message of a call that has one, which `read` receives.

        Raises MalformedMessage, LimitExceeded, Overloaded, and TenantLimit.
        """
        self._admission.check_pressure(0)
        mine = not self._slots.locked
        if mine:
            await self._slots.acquire()
        else:
            mine = await self._wait()
        try:
            message = await read()
            # A call without its message is none.
            if message is grpc.aio.EOF:
                raise _malformed()
            if current_tenant().tokens_per_second is not None:
                self._charge(message)
            return await self.parsed(message)
        finally:
            if mine:
                self._slots.release()

    async def unbounded(self, read: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
        """Return the message of a call that waits for no others, such as a health check."""
        message = await read()
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
        if isinstance(message, Unread):
            try:
                size = message.size(self._most)
                admit = self._admission
                with await admit.wait_for_room(size) if waits else admit.admit(size):
                    async with self._reading:
                        parsed = await asyncio.to_thread(message.read, size)
            finally:
                message.drop()
            _note_size(size)
            return parsed
        if isinstance(message, errors.MalformedMessage):
            raise message
        return message

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

    async def _wait(self) -> bool:
        """Wait for a slot; say whether there was one in time. Raises Overloaded."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._slots.acquire()
        except TimeoutError:
            self._admission.check_pressure(self._most)
            return False
        return True


def _malformed() -> errors.MalformedMessage:
    return errors.MalformedMessage(
        "the bytes are not this call's request message, or a string in it is not UTF-8"
    )
