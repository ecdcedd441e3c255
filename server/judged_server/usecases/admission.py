"""Bounds the memory of the requests in work.

A request takes several times its size: its bytes, the message, the texts, what a judge makes of
them. What does not fit is turned away at the door at once, with a delay after which to come back,
since a queue that nobody bounds only makes every answer late. Small requests have room that large
ones can't use up. How much work a model takes is bounded in `scheduling.admission`.
"""

from __future__ import annotations

from judged_server import errors
from judged_server.process.memory import Memory, Pressure

GROWTH = 5
"""Bytes of memory that a byte of a request takes: 4.3 of one alone, 6 with what is freed late."""
SMALL_BYTES = 1 << 16
LARGE_SHARE = 0.75
"""Of the room, for requests above SMALL_BYTES."""
_RETRY_AFTER_S = 0.25
_MEMORY_BACK_AFTER_S = 1.0


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
                f"the requests in work take {self._pending} of {self._limit} bytes of memory, and "
                f"this one would take {memory}",
                _RETRY_AFTER_S,
            )
        self._pending += memory
        if large:
            self._large += memory
        return Admitted(self, size)

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
        self._admission.release(self._size)
