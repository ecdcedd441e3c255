"""A judge as a JSON object, with its members and its calibration."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from judged.evaluation.datasets.files import Record
from judged.values import Calibrator, Judge, PanelMember, Scalar


def write_judge(judge: Judge) -> dict[str, Any]:
    """Return the JSON object of a judge."""
    calibration = judge.calibration
    return {
        "kind": judge.kind,
        "profile": judge.profile,
        "min_score": judge.min_score,
        "parameters": dict(judge.parameters),
        "members": [_write_member(member) for member in judge.members],
        "calibration": asdict(calibration) if isinstance(calibration, Calibrator) else calibration,
    }


def read_judge(record: Record, name: str = "judge") -> Judge:
    """Return the judge in a field of an object. Raises FileError."""
    inner = record.record(name)
    if inner is None:
        raise record.error(f"has no {name!r}")
    return Judge(
        inner.optional_text("kind") or "",
        inner.optional_text("profile") or "",
        inner.optional_number("min_score"),
        _parameters(inner),
        [
            PanelMember(read_judge(member), member.optional_number("weight"))
            for member in inner.records("members")
        ],
        _calibration(inner),
    )


def _write_member(member: PanelMember | Judge | str) -> dict[str, Any]:
    whole = member if isinstance(member, PanelMember) else PanelMember(member)
    judge = Judge(whole.judge) if isinstance(whole.judge, str) else whole.judge
    return {"judge": write_judge(judge), "weight": whole.weight}


def _parameters(inner: Record) -> dict[str, Scalar]:
    record = inner.record("parameters")
    found: dict[str, Scalar] = {}
    for key, value in ({} if record is None else record.fields).items():
        if not isinstance(value, bool | int | float | str):
            raise inner.error(f"has the parameter {key!r} that is no single value")
        found[key] = value
    return found


def _calibration(inner: Record) -> Calibrator | str | None:
    value = inner.get("calibration")
    if value is None or isinstance(value, str):
        return value
    record = inner.record("calibration")
    if record is None:
        return None
    return Calibrator(
        record.text("scoring_key"),
        record.optional_number("slope") or 0.0,
        record.optional_number("intercept") or 0.0,
        record.optional_number("min_score"),
        record.optional_text("made") or "",
        record.optional_number("accept"),
        record.optional_number("reject"),
    )
