"""Writes how language models are to be asked, and cuts a cost limit to the size of a message."""

from __future__ import annotations

import math
from dataclasses import replace

from judged._inputs import need_kind
from judged.asking import Asking
from judged.v1 import types_pb2

LEAST = 1e-12
"""A limit that lets nothing be asked that costs anything: the server counts whole 1e-9 of the
currency, so it adds nothing to the sum of all shares. 0 would be refused."""
_BELOW = 1 - 1e-12
"""Keeps the sum of rounded shares from exceeding the whole."""


def write_asking(asking: Asking | None) -> types_pb2.AskingOptions | None:
    """Return the message; None, which means the server's defaults, for none."""
    if asking is None:
        return None
    need_kind(asking, "asking", Asking, "an Asking")
    return types_pb2.AskingOptions(
        cache=int(asking.cache),  # type: ignore[arg-type]  # ours has the same numbers
        max_cost=asking.max_cost,
    )


def share(asking: Asking | None, part: int, whole: int, spent: float | None = 0.0) -> Asking | None:
    """Return the asking of `part` of the `whole` that is still to be asked.

    Its limit is as large a part of what was not spent yet. A limit that the server will refuse
    stays as it is.
    """
    if asking is None:
        return None
    need_kind(asking, "asking", Asking, "an Asking")
    if asking.max_cost is None or not _is_limit(asking.max_cost):
        return asking
    if part >= whole and not spent:
        return asking
    left = asking.max_cost - (spent or 0.0)
    return replace(asking, max_cost=max(LEAST, left * _BELOW * part / max(whole, 1)))


def _is_limit(max_cost: float) -> bool:
    return math.isfinite(max_cost) and max_cost > 0
