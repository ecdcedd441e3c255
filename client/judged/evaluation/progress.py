"""How far an evaluation is, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is: `done` of `total` queries retrieved, or contexts judged.

    As text it is a line for people, so that `progress=print` shows it.
    """

    stage: str
    done: int
    total: int
    elapsed_s: float

    @property
    def remaining_s(self) -> float | None:
        """The seconds that are left at the pace so far; None while nothing is done."""
        return self.elapsed_s * (self.total - self.done) / self.done if self.done else None

    def __str__(self) -> str:
        left = self.remaining_s
        ahead = "" if left is None else f", {left:.0f} s left"
        return f"{self.stage} {self.done}/{self.total}{ahead}"


OnProgress = Callable[[Progress], object]


def stage(name: str, told: OnProgress | None) -> Callable[[int, int], object] | None:
    """Return what a stage calls with (done, total); None where nobody listens."""
    if told is None:
        return None
    started = time.monotonic()
    return lambda done, total: told(Progress(name, done, total, time.monotonic() - started))
