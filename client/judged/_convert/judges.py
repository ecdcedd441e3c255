"""Judges, and how language models are asked: a limit on their cost holds for a whole call."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

from judged._codec import write_at
from judged._inputs import need_kind
from judged.errors import JudgedError
from judged.v1 import groups_pb2
from judged.values.judges import Asking, Judge, Usage
from judged.values.verdicts import VerdictError

LEAST = 1e-12
"""A limit that lets nothing be asked that costs anything: the server counts whole 1e-9 of the
currency, so it adds nothing to the sum of all shares. 0 would be refused."""
_BELOW = 1 - 1e-12
"""Keeps the sum of rounded shares from exceeding the whole."""


def write_judge(judge: Judge | str | None) -> groups_pb2.JudgeSpec | None:
    """Return the message of a judge; a string is its kind, None the server's default."""
    if judge is None:
        return None
    if isinstance(judge, str):
        return groups_pb2.JudgeSpec(kind=judge)
    need_kind(judge, "judge", Judge, "a Judge or the name of a kind")
    return write_at("judge", groups_pb2.JudgeSpec, judge)


def write_asking(asking: Asking | None) -> groups_pb2.AskingOptions | None:
    """Return the message; None, which means the server's defaults, for none."""
    if asking is None:
        return None
    need_kind(asking, "asking", Asking, "an Asking")
    return write_at("asking", groups_pb2.AskingOptions, asking)


_LIMIT = re.compile(r"max_cost of [0-9.e+-]*[0-9]")


class Purse:
    """The limit on what models may cost: one for a call, however many messages it travels in.

    The messages are sent one after the other where there is one, each with all that is left.
    """

    def __init__(self, asking: Asking | None, spent: float = 0.0) -> None:
        write_asking(asking)  # which refuses what it can't be
        self._asking = asking
        self.limited = asking is not None and asking.max_cost is not None
        self.spent = spent

    def rest(self, parts: int = 1) -> Asking | None:
        """Return how models are asked by the next message, the next of as many with equal limits.

        A limit that the server will refuse stays as it is.
        """
        limit = None if self._asking is None else self._asking.max_cost
        if self._asking is None or limit is None or not 0 < limit < math.inf:
            return self._asking
        if parts == 1 and not self.spent:
            return self._asking
        left = (limit - self.spent) * _BELOW / parts
        return replace(self._asking, max_cost=max(LEAST, left))

    def onto(self, message: Any) -> Any:  # noqa: ANN401 - a request
        """Return a copy of a message, which asks with what is left."""
        limited = type(message)(asking=write_asking(self.rest()))
        limited.MergeFrom(message)
        return limited

    def took(self, usage: Usage | None) -> None:
        """Note what a message took."""
        self.spent += 0.0 if usage is None else usage.cost or 0.0

    def lost(self, error: JudgedError) -> None:
        """Note that a message failed, and may have spent all that was left."""
        if self._asking is not None and error.code != "RESOURCE_EXHAUSTED":  # nothing was asked
            self.spent += self._asking.max_cost or 0.0

    def named(self, error: VerdictError) -> VerdictError:
        """Return why something was not asked with the limit of the call, not of its message."""
        if error.reason != "BUDGET" or self._asking is None or self._asking.max_cost is None:
            return error
        limit = f"max_cost of {self._asking.max_cost:.6g}"
        return replace(error, message=_LIMIT.sub(limit, error.message, count=1))
