"""Long work in steps: generators that yield whenever about ten milliseconds of work are done.

Nothing here knows a clock: work is counted in units of about a tenth of a microsecond, and whoever
runs the generator decides what happens between two steps (another call's turn, or the end of this
one because its caller has gone).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

Result = TypeVar("Result")
Steps = Generator[None, None, Result]
"""Work that returns a Result and yields between its steps."""

STEP_WORK = 40_000
"""Units of work in one step: 5 to 10 ms, by measurement."""


class Pace:
    """Counts the work of one request."""

    __slots__ = ("_done",)

    def __init__(self) -> None:
        self._done = 0

    def due(self, work: int) -> bool:
        """Add work that was done; say whether the step is full, and begin the next one if so."""
        self._done += work
        if self._done < STEP_WORK:
            return False
        self._done = 0
        return True


def finish(steps: Steps[Result]) -> Result:
    """Return the result of all steps, done in one go."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
