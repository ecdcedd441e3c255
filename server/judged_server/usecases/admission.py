"""Bounds the work that is in the house at once.

What does not fit is turned away at the door at once, with a delay after which to come back, since a
queue that nobody bounds only makes every answer late. A request is always admitted when the house
is empty.
"""

from __future__ import annotations

from judged_server import errors

_RETRY_AFTER_S = 0.25


class Admission:
    """Counts the bytes in work against a limit. Used on one event loop."""

    def __init__(self, max_pending_bytes: int) -> None:
        self._limit = max_pending_bytes
        self._pending = 0

    @property
    def pending_bytes(self) -> int:
        """The bytes of all requests in work."""
        return self._pending

    def admit(self, size: int) -> Admitted:
        """Hold `size` bytes for the length of a `with`. Raises Overloaded when they don't fit."""
        if self._pending and self._pending + size > self._limit:
            raise errors.Overloaded(
                f"the server has {self._pending} of {self._limit} request bytes in work",
                _RETRY_AFTER_S,
            )
        self._pending += size
        return Admitted(self, size)

    def release(self, size: int) -> None:
        """Give `size` bytes back."""
        self._pending -= size


class Admitted:
    """Bytes that are held until the end of a `with`."""

    __slots__ = ("_admission", "_size")

    def __init__(self, admission: Admission, size: int) -> None:
        self._admission = admission
        self._size = size

    def __enter__(self) -> None:
        """Do nothing: the bytes are held already."""

    def __exit__(self, *_: object) -> None:
        self._admission.release(self._size)
