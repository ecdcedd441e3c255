"""From the flags about a judge, and about the members of a panel, to the judge that is asked for.

Whether the value is allowed is the server's to say. Of a member, the names weight and min_score are
its own; every other is a parameter of its judge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated

import typer

from judged import Judge, PanelMember
from judged._batching.chunks import ASKING_KINDS
from judged.cli.problems import Problem
from judged.types import JudgeInfo, ParameterInfo, Scalar, ServerInfo

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


def read_judge(
    info: ServerInfo,
    kind: str | None,
    profile: str | None,
    min_score: float | None,
    parameters: Sequence[str],
) -> Judge:
    """Return the judge that the flags ask for. Raises Problem."""
    if not kind and (profile or parameters):
        flag = "--profile" if profile else "--param"
        raise Problem(f"{flag}: say --judge KIND too, else it is unclear whose it is")
    offer = _offer(info, kind or info.default_judge, profile)
    if not kind and info.default_judge in ASKING_KINDS:
        kind = info.default_judge  # named, it travels in chunks small enough to lose
    return Judge(
        kind=kind or "",
        profile=profile or "",
        min_score=min_score,
        parameters=dict(_read(text, offer) for text in _each_once(parameters)),
    )


def _offer(info: ServerInfo, kind: str, profile: str | None) -> JudgeInfo | None:
    """Return what the server says of a judge; None for one it lacks, which it will refuse."""
    fits = (j for j in info.judges if j.kind == kind and profile in {None, "", j.profile})
    return next(fits, None)


def _each_once(parameters: Sequence[str]) -> Sequence[str]:
    names = [text.partition("=")[0] for text in parameters]
    for name in names:
        if names.count(name) > 1:
            raise Problem(f"--param {name}: is given twice")
    return parameters


def _read(text: str, offer: JudgeInfo | None) -> tuple[str, Scalar]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise Problem(f"--param {text}: write it as name=value")
    if offer is None:
        return name, value
    known = {parameter.name: parameter for parameter in offer.parameters}
    if name not in known:
        judge = f"{offer.kind} {offer.profile}".strip()
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        names = ", ".join(known) or "no parameters"
        raise Problem(f"--param {name}: judge {judge} has {names}{hint}")
    return name, _typed(known[name], value)


def _typed(parameter: ParameterInfo, text: str) -> Scalar:
    value = _parse(parameter.default, text)
    if value is None:
        raise Problem(f"--param {parameter.name}: must be {parameter.rule}, not {text!r}")
    return value


def _parse(default: Scalar | None, text: str) -> Scalar | None:
    """Return the value in the type of the default; None when the text is not of that type."""
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text.lower())
    if isinstance(default, int | float):
        try:
            number = int(text) if isinstance(default, int) else float(text)
        except ValueError:
            return None
        return number if math.isfinite(number) and abs(number) < 2**63 else None
    return text


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
