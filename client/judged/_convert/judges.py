"""Judges, and how language models are asked: a limit on their cost holds for a whole call."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from types import NoneType

from judged._codec import read_fields, write_fields
from judged._inputs import need_each, need_kind
from judged.errors import JudgedError
from judged.v1 import groups_pb2, verdicts_pb2
from judged.values.calibrators import Calibrator, ErrorGuarantee
from judged.values.judges import Asking, Judge, JudgeIdentity, PanelMember, Scalar, Usage
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
    need_kind(judge.parameters, "judge.parameters", Mapping, "a mapping of names to values")
    need_each(judge.members, "judge.members", (PanelMember, Judge, str), "PanelMember or Judge")
    promised = (ErrorGuarantee, NoneType)
    need_kind(judge.guarantee, "judge.guarantee", promised, "the ErrorGuarantee of a frontier")
    return groups_pb2.JudgeSpec(
        kind=judge.kind,
        profile=judge.profile,
        min_score=judge.min_score,
        parameters={name: write_value(value) for name, value in judge.parameters.items()},
        members=map(_write_member, judge.members),
        calibration=write_calibration(judge.calibration),
        guarantee=_write_guarantee(judge.guarantee),
    )


def _write_guarantee(guarantee: ErrorGuarantee | None) -> groups_pb2.ErrorGuarantee | None:
    if guarantee is None:
        return None
    data = [write_fields(groups_pb2.ItemShares, each) for each in guarantee.data]
    return write_fields(groups_pb2.ErrorGuarantee, guarantee, data=data)


def write_calibration(calibration: Calibrator | str | None) -> groups_pb2.JudgeCalibration | None:
    """Return the message of a calibration or of its name, None for none."""
    if calibration is None:
        return None
    if isinstance(calibration, str):
        return groups_pb2.JudgeCalibration(name=calibration)
    need_kind(calibration, "judge.calibration", Calibrator, "a Calibrator or the name of one")
    return groups_pb2.JudgeCalibration(calibrator=write_fields(groups_pb2.Calibrator, calibration))


def _write_member(member: PanelMember | Judge | str) -> groups_pb2.PanelMember:
    if isinstance(member, PanelMember):
        return groups_pb2.PanelMember(judge=write_judge(member.judge), weight=member.weight)
    return groups_pb2.PanelMember(judge=write_judge(member))


def write_value(value: Scalar) -> groups_pb2.ParameterValue:
    """Return the message of a parameter's value."""
    if isinstance(value, bool):
        return groups_pb2.ParameterValue(bool_value=value)
    if isinstance(value, int):
        return groups_pb2.ParameterValue(int_value=value)
    if isinstance(value, float):
        return groups_pb2.ParameterValue(double_value=value)
    need_kind(value, "judge.parameters", str, "a mapping of names to texts, numbers or booleans")
    return groups_pb2.ParameterValue(string_value=value)


def read_value(message: groups_pb2.ParameterValue) -> Scalar | None:
    """Return the value of a parameter, None when it has none."""
    which = message.WhichOneof("kind")
    value: Scalar | None = getattr(message, which) if which else None
    return value


def write_asking(asking: Asking | None) -> groups_pb2.AskingOptions | None:
    """Return the message; None, which means the server's defaults, for none."""
    if asking is None:
        return None
    need_kind(asking, "asking", Asking, "an Asking")
    return groups_pb2.AskingOptions(
        cache=int(asking.cache),  # type: ignore[arg-type]  # ours has the same numbers
        max_cost=asking.max_cost,
    )


class Purse:
    """The limit on what models may cost: one for a call, however many messages it travels in.

    The messages are sent one after the other where there is one, each with all that is left.
    """

    def __init__(self, asking: Asking | None, spent: float = 0.0) -> None:
        if asking is not None:
            need_kind(asking, "asking", Asking, "an Asking")
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


_LIMIT = re.compile(r"max_cost of [0-9.e+-]*[0-9]")


def read_identity(message: verdicts_pb2.JudgeIdentity) -> JudgeIdentity:
    """Return the identity of a judge."""
    return read_fields(JudgeIdentity, message)
