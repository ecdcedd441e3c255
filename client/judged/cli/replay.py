"""`--judge none`: verdicts from a trace, then from the server's verdict cache, and nothing else.

The order of trace and cache is in `judged.traces.replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from judged import AnswerItem, Asking, CacheMode, QueryGroup, Rubric, ScoredAnswers, Verdicts
from judged._views import of_all, plural, word
from judged.cli.connection import Connection
from judged.cli.options.asking import KIND
from judged.cli.options.judges import JudgeFlags, read_judge
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

_ONCE = f"run this command once with a judge in place of {FLAG}"
Name = Callable[[MissingJudgements], str]
"""Returns what the user knows the first missing context as."""


def read_trace(tracing: Tracing, out: Output) -> Trace | None:
    """Return the trace to take judgements from, None without one. Raises FileError, Problem."""
    if tracing.path is None:
        return None
    if not Path(tracing.path).exists():
        raise Problem(f"--trace {tracing.path}: there is no such file; to write it, {_ONCE}")
    trace = Trace.read(tracing.path)
    out.warn(*trace.warnings)
    return trace


def open_replay(
    tracing: Tracing,
    out: Output,
    server: Connection,
    parameters: Sequence[str],
    min_score: float | None,
    of_judge: JudgeFlags = JudgeFlags(),
    profile: str | None = None,
    *,
    details: bool = False,
    timeout: float,
) -> Replay:
    """Return what stands for the judge: the trace, and the verdict cache if flags tell whose.

    `parameters` are those of the judge `llm`, as `--param` takes them. Raises Problem, FileError.
    """
    flags = {"profile": profile, "member": of_judge.member, "stage": of_judge.stage}
    for flag, value in {**flags, "calibration": of_judge.calibration}.items():
        if value:
            raise Problem(f"--{flag}: is for a judge, and {FLAG} runs none; leave it out")
    if tracing.path is None and not parameters:
        raise Problem(
            f"{FLAG}: say where the judgements come from: --trace FILE, or --judge-model NAME for "
            "the server's verdict cache"
        )
    trace = read_trace(tracing, out)
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
    tracing: Tracing,
    replay: Replay | ScoreReplay,
    name: Name | None = None,
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
        judge = "" if error.judge is None else f": {error.judge.signature}"
        raise Problem(
            f"{FLAG}: {of_all(error.missing, error.total, 'judgement', 'judgements')} by "
            f"{error.name} {word(error.missing, 'is', 'are')} not in "
            f"{_searched(tracing, replay)}{first}; to get {word(error.missing, 'it', 'them')}, "
            f"{_ONCE}{judge}"
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
        raise Problem(f"{FLAG}: {error}; to judge anew, {_ONCE}") from None


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
