"""From the flags about a judge to the judge that is asked for.

Whether the value is allowed is the server's to say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from difflib import get_close_matches

from judged import Judge, JudgeInfo, ParameterInfo, ServerInfo
from judged._batching.chunks import ASKING_KINDS
from judged.cli.problems import Problem
from judged.types import Scalar


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
