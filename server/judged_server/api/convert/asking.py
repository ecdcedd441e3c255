"""How language models are asked: AskingOptions as the fields of a Caller.

What follows from them is up to `llm`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from judged.v1 import types_pb2

from judged_server import errors
from judged_server.domain import CacheMode

_MODES = {int(mode) for mode in CacheMode}


@dataclass(frozen=True, slots=True)
class Asking:
    """What a request says of asking."""

    cache: CacheMode = CacheMode.USE
    max_cost: float | None = None


def read_asking(message: types_pb2.AskingOptions, field: str = "asking") -> Asking:
    """Return what the message says, or the defaults. Raises InvalidField under `field`."""
    mode = CacheMode.USE
    if message.HasField("cache"):
        if message.cache not in _MODES:
            raise errors.InvalidField(
                f"{field}.cache", f"must be unset or one of {errors.full_names(CacheMode)}"
            )
        mode = CacheMode(message.cache)
    cost = None
    if message.HasField("max_cost"):
        cost = message.max_cost
        if not (math.isfinite(cost) and cost > 0):
            raise errors.InvalidField(
                f"{field}.max_cost", "must be a finite number above 0; leave it unset for no limit"
            )
    return Asking(mode, cost)
