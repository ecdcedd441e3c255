"""`--judge none`: verdicts from a trace, then from the server's verdict cache, and nothing else.

Owns how the flags become a Replay, and the next step where a judgement is missing. The order of
trace and cache is in `judged.traces.replay`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from judged import (
    AnswerItem,
    Asking,
    CacheMode,
    JudgeIdentity,
    QueryGroup,
    Rubric,
    ScoredAnswers,
    ServerInfo,
    Verdicts,
)
from judged.cli.connection import Connection
from judged.cli.llm import KIND
from judged.cli.output import Output
from judged.cli.parameters import read_judge
from judged.cli.problems import Problem
from judged.cli.score_options import ANSWERS
from judged.cli.tables import plural
from judged.cli.trace_options import FLAG, NONE, Tracing
from judged.traces import (
    Missing,
    MissingJudgements,
    MissingScores,
    Replay,
    ReplayError,
    ScoreReplay,
    Trace,
    UnclearBar,
    UnclearName,
)

_LLM_FLAGS = {"model", "samples", "temperature", "max_tokens"}

Name = Callable[[MissingJudgements], str]
"""Returns what the user knows the first missing context as."""


def read_trace(tracing: Tracing, out: Output) -> Trace | None:
    """Return the trace to take judgements from, None without one. Raises FileError, Problem."""
    if tracing.path is None:
        return None
    if not Path(tracing.path).exists():
        raise Problem(
            f"--trace {tracing.path}: there is no such file; write it by running this command "
            "once with a judge: " + command([], tracing.path)
        )
    trace = Trace.read(tracing.path)
    for warning in trace.warnings:
        out.warn(warning)
    return trace


def open_replay(
    tracing: Tracing,
    out: Output,
    server: Connection,
    parameters: Sequence[str],
    min_score: float | None,
    *,
    profile: str | None = None,
    members: Sequence[str] | None = None,
    details: bool = False,
    timeout: float,
) -> Replay:
    """Return what stands for the judge: the trace, and the verdict cache if flags tell whose.

    `parameters` are those of the judge `llm`, as `--param` takes them. Raises Problem, FileError.
    """
    flag = "--profile" if profile is not None else "--member"
    if profile is not None or members:
        raise Problem(f"{flag}: is for a judge, and {FLAG} runs none; leave it out")
    if tracing.path is None and not parameters:
        raise Problem(
            f"{FLAG}: say where the judgements come from: --trace FILE, or --judge-model NAME for "
            "the server's verdict cache"
        )
    trace = read_trace(tracing, out)
    replay = Replay(trace, _choice(tracing, trace, parameters), min_score, with_details=details)
    if parameters:
        spec = read_judge(server.info, KIND, None, min_score, parameters)

        def cached(groups: Sequence[QueryGroup], bar: float | None) -> Verdicts:
            return server.client.judge(
                groups,
                replace(spec, min_score=bar),
                asking=Asking(cache=CacheMode.ONLY),
                include_details=details,
                timeout=timeout,
            )

        replay.cached = cached
    return replay


def _choice(tracing: Tracing, trace: Trace | None, parameters: Sequence[str]) -> str:
    """Return the judgements to take; "" leaves it to the trace, which then has one kind only."""
    if tracing.judgements or trace is None:
        names = [] if trace is None else trace.names()
        if trace is not None and tracing.judgements not in names:
            known = ", ".join(names) or "none"
            raise Problem(
                f"--trace-judge {tracing.judgements}: {trace.name} has judgements by {known}"
            )
        return tracing.judgements
    given = dict(text.partition("=")[::2] for text in parameters)
    asked = f"{KIND}/{given.get('rubric', 'retrieval_match')}"
    return asked if parameters and asked in trace.names() else ""


def open_score_replay(
    tracing: Tracing,
    out: Output,
    server: Connection,
    *,
    from_cache: bool,
    details: bool,
    timeout: float,
) -> ScoreReplay:
    """Return what stands for the model of a scoring: the trace, and the verdict cache.

    The cache is asked when there is no trace, or `from_cache`. Raises Problem, FileError.
    """
    replay = ScoreReplay(read_trace(tracing, out))
    if from_cache or tracing.path is None:

        def cached(items: Sequence[AnswerItem], rubrics: Sequence[Rubric]) -> ScoredAnswers:
            asking = Asking(cache=CacheMode.ONLY)
            return server.client.score_answers(
                items, rubrics, include_replies=details, asking=asking, timeout=timeout
            )

        replay.cached = cached
    return replay


@contextmanager
def replayed(
    tracing: Tracing, replay: Replay | ScoreReplay, info: ServerInfo, name: Name | None = None
) -> Iterator[None]:
    """Turn what a replay lacks into problems that say how to get it."""
    try:
        yield
    except Missing as error:
        first = ""
        if isinstance(error, MissingScores):
            first = f", first that of item {error.item_id!r}"
        elif isinstance(error, MissingJudgements) and name is not None:
            first = f", first that of {name(error)}"
        raise Problem(
            f"{FLAG}: {error.missing} of {error.total} judgements by {error.name} are not in "
            f"{_searched(tracing, replay)}{first}; get them with: "
            f"{_command(tracing, replay, info)}"
        ) from None
    except UnclearName as error:
        raise Problem(f"{FLAG}: {error}, by --trace-judge NAME") from None
    except UnclearBar as error:
        raise Problem(f"{FLAG}: {error}, by --min-score") from None
    except ReplayError as error:
        raise Problem(
            f"{FLAG}: {error}; judge anew with: {_command(tracing, replay, info)}"
        ) from None


def _searched(tracing: Tracing, replay: Replay | ScoreReplay) -> str:
    cache = ["the server's verdict cache"] if replay.cached is not None else []
    return " or in ".join([*([tracing.path] if tracing.path is not None else []), *cache])


def replay_warnings(replay: Replay | ScoreReplay, path: str | None) -> Iterator[str]:
    """Yield what the reader should know of replayed verdicts."""
    if replay.disagreements:
        n = plural(len(replay.disagreements), "verdict differs", "verdicts differ")
        yield (
            f"{n} between {path} and the server's verdict cache; those of the trace count. Judge "
            "anew with --judge-refresh to settle it"
        )


def _command(tracing: Tracing, replay: Replay | ScoreReplay, info: ServerInfo) -> str:
    """Return the command that gets what is missing."""
    if isinstance(replay, ScoreReplay):
        return command(_score_flags(replay, info), tracing.path)
    flags: list[str] = []
    judge = _recorded(replay)
    if replay.cached is not None:
        flags = ["--judge", KIND]  # its parameters were given as flags already
    elif judge is not None:
        flags = judge_flags(judge, info)
    return command(flags or ["--judge", "KIND"], tracing.path)


def _score_flags(replay: ScoreReplay, info: ServerInfo) -> list[str]:
    """Return the flags of the recorded scores, unless flags said already whom to ask."""
    if replay.trace is None or replay.cached is not None:
        return []
    found = (j for item in replay.trace.items.values() for j in item.judgements.values())
    judge = next((j.judge for j in found if j.judge.kind == ANSWERS), None)
    return [] if judge is None else _parameter_flags(judge, info)


def _recorded(replay: Replay) -> JudgeIdentity | None:
    """Return the judge of the last judgement that the replay may take."""
    if replay.trace is None:
        return None
    wanted = replay.judgements or next(iter(replay.trace.names()), "")
    found = (item.judgements.get(wanted) for item in replay.trace.items.values())
    return next((judgement.judge for judgement in found if judgement is not None), None)


def judge_flags(judge: JudgeIdentity, info: ServerInfo) -> list[str]:
    """Return the flags that ask for a judge, from what its signature prints of its parameters."""
    profile = ["--profile", judge.profile] if judge.profile else []
    return ["--judge", judge.kind, *profile, *_parameter_flags(judge, info)]


def _parameter_flags(judge: JudgeIdentity, info: ServerInfo) -> list[str]:
    flags: list[str] = []
    fits = (j for j in info.judges if (j.kind, j.profile) == (judge.kind, judge.profile))
    offer = next(fits, None)
    known = {p.name: p.default for p in offer.parameters} if offer is not None else {}
    for part in judge.signature.split("|")[1:]:
        name, _, value = part.partition(":")
        value = value.partition("@")[0] if name == "rubric" else value
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


def command(judge: Sequence[str], trace: str | None) -> str:
    """Return this command with a judge in place of `--judge none`."""
    given = sys.argv[1:]
    kept: list[str] = []
    skip = False
    for place, word in enumerate(given):
        following = given[place + 1] if place + 1 < len(given) else ""
        if skip:
            skip = False
        elif (word == "--judge" and following == NONE) or word == "--trace-judge":
            skip = True
        elif word not in {"--no-judge", f"--judge={NONE}"} and not word.startswith(
            "--trace-judge="
        ):
            kept.append(word)
    has_trace = any(word == "--trace" or word.startswith("--trace=") for word in kept)
    added = [] if has_trace or trace is None else ["--trace", trace]
    return shlex.join(["judged", *kept, *judge, *added])
