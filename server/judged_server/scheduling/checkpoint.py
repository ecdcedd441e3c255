"""Where a long computation looks whether anybody still waits for it.

A thread can't be stopped from outside. So computations that may take long call `checkpoint` at
least every 50 ms; whoever started one under `watched` can end it there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

_Result = TypeVar("_Result")


class Abandoned(Exception):
    """The computation was ended, since nobody waits for its result any more."""


_is_abandoned: ContextVar[Callable[[], bool] | None] = ContextVar("_is_abandoned", default=None)


def checkpoint() -> None:
    """Raise Abandoned when nobody waits for the computation that calls this."""
    is_abandoned = _is_abandoned.get()
    if is_abandoned is not None and is_abandoned():
        raise Abandoned


def watched(is_abandoned: Callable[[], bool], work: Callable[[], _Result]) -> _Result:
    """Return work(), which ends at its next checkpoint once `is_abandoned` returns True."""
    token = _is_abandoned.set(is_abandoned)
    try:
        return work()
    finally:
        _is_abandoned.reset(token)
