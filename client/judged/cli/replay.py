"""`--judge none`: verdicts from a trace, then from the server's verdict cache, and nothing else.

The order of trace and cache is in `judged.traces.replay`, the command that goes on in `next_step`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from judged import AnswerItem, Asking, CacheMode, QueryGroup, Rubric, ScoredAnswers, Verdicts
from judged._views import of_all, plural, word
from judged.cli.connection import Connection
from judged.cli.next_step import (
    any_judge,
    before_asking,
    command,
    judge_flags,
    score_flags,
    threshold_flag,
)
from judged.cli.options.asking import KIND
from judged.cli.options.judges import read_judge
from judged.cli.options.rubrics import ANSWERS
from judged.cli.options.traces import FLAG, Tracing
from judged.cli.output.writer import Output
from judged.cli.problems import Problem
from judged.traces import (
    Missing,
    MissingJudgements,
    MissingScores,
    OtherRubric,
    Replay,
    ReplayError,
    ScoreReplay,
    Trace,
    UnclearName,
    UnclearThreshold,
)
from judged.traces.replay import context_names
from judged.types import JudgeIdentity

Name = Callable[[MissingJudgements], str]
"""Returns what the user knows the first missing context as."""


def read_trace(tracing: Tracing, out: Output, judge: Sequence[str]) -> Trace | None:
    """Return the trace to take judgements from, None without one. Raises FileError, Problem.

    `judge` are the flags of a judge that would write it.
    """
    if tracing.path is None:
        return None
    if not Path(tracing.path).exists():
        raise Problem(
            f"--trace {tracing.path}: there is no such file; write it by running this command "
            "once with a judge: " + command(judge, tracing.path)
        )
    trace = Trace.read(tracing.path)
    out.warn(*trace.warnings)
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
    trace = read_trace(tracing, out, ["--judge", KIND] if parameters else any_judge(server.info))
    replay = Replay(trace, _choice(tracing, trace, parameters), min_score, with_details=details)
    if parameters:
        spec = read_judge(server.info, KIND, None, min_score, parameters)

        def cached(groups: Sequence[QueryGroup], threshold: float | None) -> Verdicts:
            return server.client.judge(
                groups,
                replace(spec, min_score=threshold),
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
    names = context_names(trace)
    return asked if parameters and (asked in names or not names) else ""


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
    replay = ScoreReplay(read_trace(tracing, out, []))
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
    tracing: Tracing,
    replay: Replay | ScoreReplay,
    server: Connection,
    threshold: float | None,
    name: Name | None = None,
) -> Iterator[None]:
    """Turn what a replay lacks into problems that say how to get it; `threshold` is a flag's."""
    try:
        yield
    except Missing as error:
        first = ""
        if isinstance(error, MissingScores):
            first = f", first that of item {error.item_id!r}"
        elif isinstance(error, MissingJudgements) and name is not None:
            first = f", first that of {name(error)}"
        before, flags = _next_step(replay, server, error.judge, threshold)
        raise Problem(
            f"{FLAG}: {of_all(error.missing, error.total, 'judgement', 'judgements')} by "
            f"{error.name} {word(error.missing, 'is', 'are')} not in "
            f"{_searched(tracing, replay)}{first}; {before}get them with: "
            f"{command(flags, tracing.path)}"
        ) from None
    except UnclearName as error:
        raise Problem(f"{FLAG}: {error}, by --trace-judge NAME") from None
    except UnclearThreshold as error:
        raise Problem(f"{FLAG}: {error}, by --min-score") from None
    except ReplayError as error:
        if isinstance(error, OtherRubric) and error.lacking:
            raise Problem(
                f"{FLAG}: {error}; start the server with --rubrics-dir FOLDER, where FOLDER has "
                f"the file of {error.lacking}, and run this command again"
            ) from None
        before, flags = _next_step(replay, server, None, threshold)
        raise Problem(
            f"{FLAG}: {error}; {before}judge anew with: {command(flags, tracing.path)}"
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


def _next_step(
    replay: Replay | ScoreReplay,
    server: Connection,
    judge: JudgeIdentity | None,
    threshold: float | None,
) -> tuple[str, list[str]]:
    """Return what has to be done first, if anything, and the flags of the judge to ask.

    `judge` is the one whose judgements are missing, None where that is not the fault.
    """
    told = replay.cached is not None  # flags said already whom to ask
    asked = judge if judge is not None or told else _recorded(replay)
    if isinstance(replay, ScoreReplay):
        flags = [] if told or asked is None else score_flags(asked, server.info)
    elif told:
        flags = ["--judge", KIND]
    else:
        flags = any_judge(server.info) if asked is None else judge_flags(asked, server)
    if asked is not None and threshold is None:
        flags += threshold_flag(asked, server.info)
    return before_asking(asked, server.info, flags), flags


def _recorded(replay: Replay | ScoreReplay) -> JudgeIdentity | None:
    """Return the judge of the first judgement that the replay may take, None without one."""
    if replay.trace is None:
        return None
    if isinstance(replay, ScoreReplay):
        wanted = [name for name in replay.trace.names() if name.startswith(f"{ANSWERS}/")]
    else:
        wanted = [replay.judgements] if replay.judgements else context_names(replay.trace)
    found = (item.judgements.get(name) for item in replay.trace.items.values() for name in wanted)
    return next((judgement.judge for judgement in found if judgement is not None), None)
