"""The command that gets what a replay lacks: this one, with a judge in place of `--judge none`."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterator, Sequence

from judged import Asking, CacheMode, Judge, JudgedError, QueryGroup
from judged.cli.connection import Connection
from judged.cli.options.asking import KIND
from judged.cli.options.judges import KIND as PANEL
from judged.cli.options.rubrics import ANSWERS
from judged.cli.options.traces import NONE
from judged.traces.judgement import printed_parts, rubric_of
from judged.types import JudgeIdentity, ServerInfo

_LLM_FLAGS = {"model", "samples", "temperature", "max_tokens"}
_OF_NONE = {"--no-judge", f"--judge={NONE}", "--cache-only"}
_UNTOLD = "NAME=VALUE"
"""Stands for a member's parameters where a trace does not tell them; no judge takes it as it is."""


def command(judge: Sequence[str], trace: str | None) -> str:
    """Return this command with a judge in place of `--judge none`, and free to ask it."""
    given = sys.argv[1:]
    kept: list[str] = []
    skip = False
    for place, word in enumerate(given):
        following = given[place + 1] if place + 1 < len(given) else ""
        if skip:
            skip = False
        elif (word == "--judge" and following == NONE) or word == "--trace-judge":
            skip = True
        elif word not in _OF_NONE and not word.startswith("--trace-judge="):
            kept.append(word)
    has_trace = any(word == "--trace" or word.startswith("--trace=") for word in kept)
    added = [] if has_trace or trace is None else ["--trace", trace]
    return shlex.join(["judged", *kept, *judge, *added])


def any_judge(info: ServerInfo) -> list[str]:
    """Return the flags of a language model that can be asked, where nothing tells which it was."""
    models = sorted(info.chat_models, key=lambda model: not model.is_default)
    able = (model.name for model in models if not model.unavailable)
    return ["--judge", KIND, "--judge-model", next(able, "NAME")]


def judge_flags(judge: JudgeIdentity, server: Connection) -> list[str]:
    """Return the flags that ask for a judge of contexts, from what its signature prints of it."""
    profile = ["--profile", judge.profile] if judge.profile else []
    members = [] if judge.kind != PANEL else list(_member_flags(judge, server))
    return ["--judge", judge.kind, *profile, *_parameter_flags(judge, server.info), *members]


def score_flags(judge: JudgeIdentity, info: ServerInfo) -> list[str]:
    """Return the flags that ask for a judge of answers, from what its signature prints of it."""
    return [*_parameter_flags(judge, info), *_weight_flags(judge, info)]


def threshold_flag(judge: JudgeIdentity, info: ServerInfo) -> list[str]:
    """Return the flag of a judge's threshold, none where it holds without a flag."""
    rubric = rubric_of(judge)
    if rubric is None:
        thresholds = [j.default_min_score for j in info.judges if _is(j.kind, j.profile, judge)]
    else:
        thresholds = [r.default_min_score for r in info.rubrics if r.rubric == rubric[0]]
    return [] if judge.min_score in thresholds else ["--min-score", f"{judge.min_score:.12g}"]


def before_asking(judge: JudgeIdentity | None, info: ServerInfo, flags: Sequence[str]) -> str:
    """Return what has to be done before a command with these flags works, "" for nothing.

    It is the beginning of a sentence that goes on with the command.
    """
    untold = [word for word in flags if word.endswith((f":{_UNTOLD}", f",{_UNTOLD}"))]
    if untold:
        members = ", ".join(word.partition(":")[0] for word in untold)
        return f"the trace does not tell how {members} judged: say it in place of {_UNTOLD}; then "
    model = "" if judge is None else printed_parts(judge).get("model", "")
    if judge is None or judge.kind not in {KIND, ANSWERS} or not model:
        return ""
    problems = {known.name: known.unavailable for known in info.chat_models}
    if model not in problems:
        return (
            f"this server has no language model {model!r}: start the server with --llm-config "
            "FILE, where FILE names it; then "
        )
    problem = problems[model]
    return f"language model {model!r} can't be asked: {problem}; then " if problem else ""


def _is(kind: str, profile: str, judge: JudgeIdentity) -> bool:
    return (kind, profile) == (judge.kind, judge.profile)


def _parameter_flags(judge: JudgeIdentity, info: ServerInfo) -> list[str]:
    flags: list[str] = []
    offer = next((j for j in info.judges if _is(j.kind, j.profile, judge)), None)
    known = {p.name: p.default for p in offer.parameters} if offer is not None else {}
    for name, printed in printed_parts(judge).items():
        value = printed.partition("@")[0] if name == "rubric" else printed
        if name not in known or _same(known[name], value):
            continue
        if judge.kind in {KIND, ANSWERS} and name in _LLM_FLAGS:
            flags += [f"--judge-{name.replace('_', '-')}", value]
        else:
            flags += ["--param", f"{name}={value}"]
    return flags


def _same(default: object, printed: str) -> bool:
    """Say whether a signature prints this default."""
    if isinstance(default, bool):
        return printed == str(default).lower()
    if isinstance(default, int | float):
        return printed == format(default, ".12g")
    return printed == default


def _weight_flags(judge: JudgeIdentity, info: ServerInfo) -> list[str]:
    """Return the flag of a rubric's weights, none where they are its own."""
    rubric, printed = rubric_of(judge), printed_parts(judge).get("weights", "")
    if rubric is None or not printed:
        return []
    own = next((dict(r.dimensions) for r in info.rubrics if r.rubric == rubric[0]), {})
    total = math.fsum(own.values()) or 1.0
    shares = (part.partition("=") for part in printed.split(","))
    if all(math.isclose(own.get(n, 0) / total, float(v), abs_tol=1e-9) for n, _, v in shares):
        return []
    return ["--weights", printed]


def _member_flags(judge: JudgeIdentity, server: Connection) -> Iterator[str]:
    """Yield `--member` for each member of a panel.

    Its signature has their kinds and the beginnings of their fingerprints, so those are found that
    judge with the defaults of a profile or of a model.
    """
    known = {kind for kind, _, _ in _kinds(judge)}
    found = dict(_plain_members(known, server))
    for kind, fingerprint, weight in _kinds(judge):
        name, _, own = found.get((kind, fingerprint), f"{kind}:{_UNTOLD}").partition(":")
        parts = [f"weight={weight}"] if weight not in {"", "1"} else []
        parts += [own] if own else []
        yield from ("--member", f"{name}:{','.join(parts)}" if parts else name)


def _kinds(panel: JudgeIdentity) -> Iterator[tuple[str, str, str]]:
    """Yield kind, beginning of the fingerprint and weight of each member of a panel."""
    for member in printed_parts(panel).get("members", "").split(","):
        name, _, weight = member.partition("*")
        kind, _, fingerprint = name.partition("/")
        yield kind, fingerprint, weight


def _plain_members(kinds: set[str], server: Connection) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield what `--member` takes, by kind and fingerprint, of all with default parameters."""
    plain = [
        (Judge(j.kind, j.profile), f"{j.kind}/{j.profile}".rstrip("/"))
        for j in server.info.judges
        if j.kind in kinds
    ]
    if KIND in kinds:
        names = [model.name for model in server.info.chat_models]
        plain += [(Judge(KIND, parameters={"model": n}), f"{KIND}:model={n}") for n in names]
    for judge, name in plain:
        try:
            # Without a context nobody is asked, and the reply names the judge.
            only = Asking(CacheMode.ONLY)
            identity = server.client.judge([QueryGroup()], judge, asking=only).judge
        except JudgedError:
            continue  # it can't judge here
        yield (judge.kind, identity.fingerprint[:8]), name
