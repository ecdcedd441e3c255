"""The flag `--member`: the judges of `--judge panel`, each on one line.

The names weight and min_score are the member's own; every other is a parameter of its judge, typed
as `parameters` types it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from judged import Judge, PanelMember, ServerInfo
from judged.cli.parameters import read_judge
from judged.cli.problems import Problem

KIND = "panel"
_NO_MEMBERS = {KIND, "answers"}

Members = Annotated[
    list[str] | None,
    typer.Option(
        "--member",
        metavar="KIND[/PROFILE][:K=V,...]",
        help="Judge of --judge panel, as in semantic:min_score=0.7,weight=2; repeat it for each.",
    ),
]


def with_members(judge: Judge, info: ServerInfo, members: Sequence[str] | None) -> Judge:
    """Return the judge with the members that the flags name. Raises Problem."""
    if not members:
        return judge
    if judge.kind != KIND:
        raise Problem(f"--member: is for --judge {KIND}; say that too, or leave it out")
    return replace(judge, members=[_member(info, text) for text in members])


def _member(info: ServerInfo, text: str) -> PanelMember:
    name, _, given = text.partition(":")
    kind, _, profile = name.partition("/")
    if not kind:
        raise Problem(f"--member {text}: begin with the kind of a judge, as in semantic:weight=2")
    known = {judge.kind: None for judge in info.judges if judge.kind not in _NO_MEMBERS}
    if kind not in known:
        raise Problem(
            f"--member {text}: no judge is called {kind!r}; this server has {', '.join(known)}"
        )
    own: dict[str, float] = {}
    parameters = []
    for part in filter(None, given.split(",")):
        key, _, value = part.partition("=")
        if key in {"weight", "min_score"}:
            own[key] = _number(text, key, value)
        else:
            parameters.append(part)
    try:
        judge = read_judge(info, kind, profile or None, own.get("min_score"), parameters)
    except Problem as problem:
        raise Problem(f"--member {text}: {str(problem).removeprefix('--param ')}") from None
    return PanelMember(judge, own.get("weight"))


def _number(text: str, key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Problem(f"--member {text}: {key} must be a number")
    return number
