"""The memory that requests may hold: all together, those of one sender, and while they arrive.

A request takes several times its size: its bytes, the message, the texts, what a judge makes of
them; and each of its fields takes objects, however short it is. What does not fit is refused at
once, with a delay after which to come back, since a queue that nobody bounds only makes every
answer late. Small requests have room that large ones can't use up.

A sender may hold twice what it leaves free, for a weight of 1: alone two thirds of the room, beside
another that does as much two fifths. So whatever a sender's calls wait for, such as a slow
provider, others find room, and no work that has begun is thrown away.

What is still on its way has as much room besides. gRPC tells neither the size of a message nor how
much of it has come, and holds all that has. So nothing waits to be received: a small message is
there at once. Those that take longer are looked at many times a second and reckoned to grow each
time. Where they are reckoned to hold too much, or the process is short of memory, a message of
whoever has most of them on their way, for its weight, gives way: one that has come for long, which
may come no further, else the newest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from judged_server import errors
from judged_server.process.memory import Memory, Pressure
from judged_server.tenant import ANYBODY, Sender

GROWTH = 5
"""Bytes of memory that a byte of a request takes: 4.3 of one alone, 6 with what is freed late,"""
FIELD_BYTES = 128
"""and that each field takes beside: 53 to 118 were measured of shapes with the shortest texts."""
SMALL_MEMORY = 1 << 19
"""What a request of 64 KiB takes at most, but for one of more than 1,500 fields."""
LARGE_SHARE = 0.75
"""Of the room, for requests above SMALL_MEMORY."""
HELD_TO_FREE = 2.0
"""How much a sender of weight 1 may hold for each byte that is free."""
_RETRY_AFTER_S = 0.25
_MEMORY_BACK_AFTER_S = 1.0

LOOK_S = 0.05
STEP_BYTES = 1 << 20
"""What a message is reckoned to grow by from look to look, up to the largest there may be: it comes
at 170 Mbit/s."""
LONG_LOOKS = 100
"""After so many looks (5 s) a message gives way to newer ones of senders with as many."""
STRANGER = Sender("a stranger", 0.1)
"""Whoever sends without a credential, as health checks are: all of them are one sender."""
STRANGERS_LOOKS = 2
_SENT_AGAIN_AFTER_S = 1.0


def memory_of(size: int, fields: int) -> int:
    """Return the bytes of memory that a request of a size and a number of fields takes."""
    return size * GROWTH + fields * FIELD_BYTES


class Admission:
    """Counts the memory of requests against a limit. Used on one event loop."""

    def __init__(self, max_pending_bytes: int, process: Memory | None = None) -> None:
        """Take the most bytes of memory; `process` says how full that of the process is."""
        self.max_pending_bytes = max_pending_bytes
        """May be set; what is in work then stays."""
        self.process = process or Memory()
        self._pending = 0
        self._large = 0
        self._waiting = 0
        self._held: Counter[str] = Counter()

    @property
    def pending_bytes(self) -> int:
        """The memory of all requests in work."""
        return self._pending

    def check_pressure(self, memory: int) -> None:
        """Raise Overloaded when the process has too little memory left for a request."""
        pressure = self.process.pressure
        if pressure is Pressure.CRITICAL or (pressure is Pressure.HIGH and memory > SMALL_MEMORY):
            raise errors.Overloaded(
                "the server is short of memory; send less at once, or try again later",
                _MEMORY_BACK_AFTER_S,
            )

    def admit(self, memory: int, sender: Sender = ANYBODY) -> ExitStack:
        """Hold the memory of a request for the length of a `with`, or until `close`.

        A large one is always admitted when no other large one is in work, a small one when nothing
        is. Raises Overloaded when it doesn't fit.
        """
        self.check_pressure(memory)
        large = memory > SMALL_MEMORY
        used, free = self._pending, float(self.max_pending_bytes - self._pending)
        if large:
            used = self._large
            free = min(free, self.max_pending_bytes * LARGE_SHARE - used)
        share = HELD_TO_FREE * sender.weight * (free - memory)
        if used and self._held[sender.name] + memory > share:
            raise errors.Overloaded(
                "there is no room for a request of this size beside those in work; send it again "
                "later, or less at once",
                _RETRY_AFTER_S,
            )
        self._count(sender, memory, 1)
        admitted = ExitStack()
        admitted.callback(self._count, sender, memory, -1)
        return admitted

    async def wait_for_room(self, memory: int, sender: Sender = ANYBODY) -> ExitStack:
        """Do what `admit` does once there is room, however long that takes.

        Raises Overloaded where those that wait hold as much as may be in work.
        """
        self._waiting += memory
        try:
            while True:
                try:
                    return self.admit(memory, sender)
                except errors.Overloaded as busy:
                    if self._waiting > self.max_pending_bytes:
                        raise
                    await asyncio.sleep(busy.retry_after_s)
        finally:
            self._waiting -= memory

    def _count(self, sender: Sender, memory: int, sign: int) -> None:
        self._pending += sign * memory
        self._held[sender.name] += sign * memory
        if not self._held[sender.name]:
            del self._held[sender.name]
        if memory > SMALL_MEMORY:
            self._large += sign * memory


@dataclass(eq=False, slots=True)
class _Message:
    """A message on its way; `waiting` ends at once where it gives way."""

    waiting: asyncio.Timeout
    sender: Sender
    most: int
    long_looks: int
    looks: int = 0

    @property
    def memory(self) -> int:
        """What it is reckoned to hold: nothing at the first look, when most are there already."""
        return min(self.most, (self.looks - 1) * STEP_BYTES)

    @property
    def order(self) -> tuple[bool, int]:
        """Its place among its sender's messages; the lowest gives way first."""
        is_long = self.looks > self.long_looks
        return not is_long, -self.looks if is_long else self.looks


class Arrivals:
    """The messages of all calls that are being received. Used on one event loop."""

    def __init__(self, admission: Admission, max_message_bytes: int) -> None:
        """Let them hold as much, as they are reckoned, as requests in work may besides."""
        self._admission = admission
        self._max_message_bytes = max_message_bytes
        self._messages: dict[_Message, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def receive(self, read: Callable[[], Awaitable[Any]], sender: Sender = STRANGER) -> Any:  # noqa: ANN401 - any message
        """Return what `read` receives. Raises Overloaded where it gives way."""
        looks = STRANGERS_LOOKS if sender is STRANGER else LONG_LOOKS
        message = _Message(asyncio.timeout(None), sender, self._max_message_bytes, looks)
        self._messages[message] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        try:
            async with message.waiting:
                return await read()
        except TimeoutError:
            if not message.waiting.expired():
                raise
            raise errors.Overloaded(
                "the message took long to arrive, and others had to be received; send it again, "
                "in smaller messages if your connection is slow",
                _SENT_AGAIN_AFTER_S,
            ) from None
        finally:
            self._messages.pop(message, None)

    def _look(self) -> None:
        """Let messages give way until the rest is reckoned to fit."""
        self._timer = None
        if self._messages:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        for message in self._messages:
            message.looks += 1
        excess = -self._admission.max_pending_bytes
        excess += sum(message.memory for message in self._messages)
        if self._admission.process.pressure > Pressure.NONE:
            excess = max(excess, 1)
        if excess <= 0:
            return
        of_sender: Counter[str] = Counter()
        places: list[tuple[float, tuple[bool, int], _Message]] = []
        # The last one of a sender to give way has one on its way, the one before it two.
        for message in sorted(self._messages, key=lambda each: each.order, reverse=True):
            if message.memory:
                of_sender[message.sender.name] += 1
                share = of_sender[message.sender.name] / message.sender.weight
                places.append((-share, message.order, message))
        for _, _, message in sorted(places, key=lambda place: place[:2]):
            if excess <= 0:
                return
            excess -= message.memory
            del self._messages[message]
            message.waiting.reschedule(0.0)
