"""From the flags about a judge, and about the members of a panel, to the judge that is asked for.

Whether the value is allowed is the server's to say. Of a member, the names weight and min_score are
its own; every other is a parameter of its judge.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated

import typer

from judged import InvalidArgument, Judge, PanelMember
from judged._batching.chunks import ASKING_KINDS
from judged.cli.options.calibrations import CalibrationFlag, with_calibration
from judged.cli.options.common import Parameters
from judged.cli.problems import Problem, did_you_mean
from judged.values import JudgeInfo, ParameterInfo, Scalar, ServerInfo, load_cascade

KIND = "panel"
CASCADE = "cascade"
_NO_MEMBERS = {KIND, CASCADE, "answers"}
_PLACE = re.compile(r"--member(?:\[(\d+)\](?:\.judge)?(?:\.([^:]+))?)?: ")
"""How a problem with a member begins: its place, and the field that is wrong, if any."""
Stages = Annotated[
    list[str] | None,
    typer.Option(
        "--stage",
        metavar="KIND[/PROFILE][:K=V,...]",
        help="Judge of --judge cascade, in order, as in "
        "answer_equivalence:calibration=my.json; repeat it for each.",
    ),
]
Members = Annotated[
    list[str] | None,
    typer.Option(
        "--member",
        metavar="KIND[/PROFILE][:K=V,...]",
        help="Judge of --judge panel, as in semantic:min_score=0.7,weight=2; repeat it for each.",
    ),
]


@dataclass(frozen=True, slots=True)
class JudgeFlags:
    """What a judge is made of, beside its kind, its profile and its threshold."""

    param: Parameters = None
    member: Members = None
    stage: Stages = None
    cascade: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Judge by the cascade of this file, which `judged frontier -o` wrote.",
        ),
    ] = None
    calibration: CalibrationFlag = None

    def kind(self, kind: str | None) -> str | None:
        """Return the kind of judge. Raises Problem where --cascade names it and is not alone."""
        if self.cascade is None:
            return kind
        if kind not in {None, CASCADE} or self.stage:
            what = "--stage" if self.stage else f"--judge {kind}"
            raise Problem(f"--cascade and {what} exclude each other: the file names the judges")
        return CASCADE

    def judge(
        self,
        info: ServerInfo,
        kind: str | None,
        profile: str | None,
        min_score: float | None,
        parameters: Sequence[str],
    ) -> Judge:
        """Return the judge; `parameters` are those of all flags. Raises Problem."""
        judge = read_judge(info, kind, profile, min_score, parameters)
        if self.cascade is not None:
            kept = _read_cascade(self.cascade)
            judge = replace(kept, parameters={**kept.parameters, **judge.parameters})
        judge = with_stages(with_members(judge, info, self.member), info, self.stage)
        return with_calibration(judge, info, self.calibration)


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
        names = ", ".join(known) or "no parameters"
        raise Problem(f"--param {name}: judge {judge} has {names}{did_you_mean(name, known)}")
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


def with_stages(judge: Judge, info: ServerInfo, stages: Sequence[str] | None) -> Judge:
    """Return the judge with the stages that the flags name. Raises Problem."""
    if not stages:
        return judge
    if judge.kind != CASCADE:
        raise Problem(f"--stage: is for --judge {CASCADE}; say that too, or leave it out")
    members = []
    for text in stages:
        plain, files = without_key(text, "calibration")
        member = _member(info, plain, "--stage")
        for file in files:
            read = with_calibration(_judge_of(member), info, file, f"--stage {text}: calibration")
            member = replace(member, judge=read)
        members.append(member)
    return replace(judge, members=members)


def without_key(text: str, key: str) -> tuple[str, list[str]]:
    """Return a stage without one of its keys, and the values that it had."""
    name, _, given = text.partition(":")
    parts = given.split(",")
    values = [part.partition("=")[2] for part in parts if part.startswith(f"{key}=")]
    others = ",".join(part for part in parts if not part.startswith(f"{key}="))
    return f"{name}:{others}".rstrip(":"), values


def read_stage(info: ServerInfo, text: str) -> Judge:
    """Return the judge of a stage, as it is typed. Raises Problem."""
    return _judge_of(_member(info, text, "--stage"))


def _read_cascade(path: str) -> Judge:
    try:
        return load_cascade(path)
    except OSError as error:
        raise Problem(f"--cascade {path}: {error.strerror}") from None
    except InvalidArgument as error:
        raise Problem(f"--cascade: {error.message}") from None


@contextmanager
def stages_as_typed(kind: str | None, stages: Sequence[str] | None) -> Iterator[None]:
    """Let problems with the stages of a cascade name the `--stage` that was typed."""
    try:
        yield
    except Problem as problem:
        found = _PLACE.match(str(problem))
        if kind != CASCADE or found is None:
            raise
        place, field = found.groups()
        typed = f" {list(stages or [])[int(place)]}" if place else ""
        what = f"{field}: " if field else ""
        rule = str(problem)[found.end() :]
        raise Problem(f"--stage{typed}: {what}{rule}") from problem


def _judge_of(member: PanelMember) -> Judge:
    return Judge(member.judge) if isinstance(member.judge, str) else member.judge


def _member(info: ServerInfo, text: str, flag: str = "--member") -> PanelMember:
    name, _, given = text.partition(":")
    kind, _, profile = name.partition("/")
    if not kind:
        raise Problem(f"{flag} {text}: begin with the kind of a judge, as in semantic:weight=2")
    known = {judge.kind: None for judge in info.judges if judge.kind not in _NO_MEMBERS}
    if kind not in known:
        raise Problem(
            f"{flag} {text}: no judge is called {kind!r}; this server has {', '.join(known)}"
            f"{did_you_mean(kind, known)}"
        )
    own: dict[str, float] = {}
    parameters = []
    for part in filter(None, given.split(",")):
        key, _, value = part.partition("=")
        if key in {"weight", "min_score"}:
            own[key] = _number(f"{flag} {text}", key, value)
        else:
            parameters.append(part)
    try:
        judge = read_judge(info, kind, profile or None, own.get("min_score"), parameters)
    except Problem as problem:
        raise Problem(f"{flag} {text}: {str(problem).removeprefix('--param ')}") from None
    return PanelMember(judge, own.get("weight"))


def _number(text: str, key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise Problem(f"{text}: {key} must be a number")
    return number
