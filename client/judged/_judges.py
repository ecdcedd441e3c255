"""Writes what a caller asks of a judge, and reads a parameter's value."""

from __future__ import annotations

from collections.abc import Mapping

from judged._inputs import need_each, need_kind
from judged.types import Judge, PanelMember, Scalar
from judged.v1 import types_pb2


def write_judge(judge: Judge | str | None) -> types_pb2.JudgeSpec | None:
    """Return the message of a judge; a string is its kind, None the server's default."""
    if judge is None:
        return None
    if isinstance(judge, str):
        return types_pb2.JudgeSpec(kind=judge)
    need_kind(judge, "judge", Judge, "a Judge or the name of a kind")
    need_kind(judge.parameters, "judge.parameters", Mapping, "a mapping of names to values")
    need_each(judge.members, "judge.members", (PanelMember, Judge, str), "PanelMember or Judge")
    return types_pb2.JudgeSpec(
        kind=judge.kind,
        profile=judge.profile,
        min_score=judge.min_score,
        parameters={name: write_value(value) for name, value in judge.parameters.items()},
        members=map(_write_member, judge.members),
    )


def _write_member(member: PanelMember | Judge | str) -> types_pb2.PanelMember:
    if isinstance(member, PanelMember):
        return types_pb2.PanelMember(judge=write_judge(member.judge), weight=member.weight)
    return types_pb2.PanelMember(judge=write_judge(member))


def write_value(value: Scalar) -> types_pb2.ParameterValue:
    """Return the message of a parameter's value."""
    if isinstance(value, bool):
        return types_pb2.ParameterValue(bool_value=value)
    if isinstance(value, int):
        return types_pb2.ParameterValue(int_value=value)
    if isinstance(value, float):
        return types_pb2.ParameterValue(double_value=value)
    need_kind(value, "judge.parameters", str, "a mapping of names to texts, numbers or booleans")
    return types_pb2.ParameterValue(string_value=value)


def read_value(message: types_pb2.ParameterValue) -> Scalar | None:
    """Return the value of a parameter, None when it has none."""
    which = message.WhichOneof("kind")
    value: Scalar | None = getattr(message, which) if which else None
    return value
