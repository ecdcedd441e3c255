"""Judgements kept in traces, and taken from them: `--trace`, and `--judge none`.

Without a judge verdicts come from a trace, then from the server's verdict cache, and from nothing
else; the order of the two is in `judged.traces.replay`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from judged import AnswerItem, Asking, CacheMode, QueryGroup, Rubric, ScoredAnswers, Verdicts
from judged._views import of_all, plural, word
from judged.cli.inputs import Name
from judged.cli.judging import LLM, REPLAYED, TextsKept, TraceOptions, read_judge
from judged.cli.output import Output, say
from judged.cli.problems import Problem
from judged.cli.server import Connection
from judged.traces import (
    Missing,
    MissingJudgements,
    MissingScores,
    OtherRubric,
    Replay,
    ReplayError,
    ScoreReplay,
    Trace,
    TraceFile,
    UnclearName,
    UnclearThreshold,
)
from judged.traces.replay import context_names

_ONCE = f"run this command once with a judge in place of {REPLAYED}"
_CACHED = Asking(cache=CacheMode.ONLY)


def kept_trace(options: TraceOptions, out: Output) -> TraceFile | None:
    """Return the trace to write, None when none is. Raises FileError for a file that is none."""
    if options.trace is None or options.replays:
        return None
    kept = TraceFile(options.trace, hashed=options.trace_texts is TextsKept.HASH)
    out.warn(*kept.trace.warnings)
    return kept


def tell_kept(kept: TraceFile) -> None:
    """Say what a trace has now."""
    say(f"trace {kept.trace.name}: {plural(len(kept.trace), 'item', 'items')}")


def _read_trace(options: TraceOptions, out: Output) -> Trace | None:
    """Return the trace to take judgements from, None without one. Raises FileError, Problem."""
    if options.trace is None:
        return None
    if not Path(options.trace).exists():
        raise Problem(f"--trace {options.trace}: there is no such file; to write it, {_ONCE}")
    trace = Trace.read(options.trace)
    out.warn(*trace.warnings)
    return trace


def open_replay(
    options: TraceOptions,
    out: Output,
    server: Connection,
    parameters: Sequence[str],
    min_score: float | None,
    *,
    details: bool = False,
    timeout: float,
) -> Replay:
    """Return what stands for the judge: the trace, and the verdict cache if flags tell whose.

    `parameters` are those of the judge `llm`, as `--param` takes them. Raises Problem, FileError.
    """
    if options.trace is None and not parameters:
        raise Problem(
            f"{REPLAYED}: say where the judgements come from: --trace FILE, or --judge-model NAME "
            "for the server's verdict cache"
        )
    trace = _read_trace(options, out)
    replay = Replay(trace, _choice(options, trace, parameters), min_score, with_details=details)
    if parameters:
        spec = read_judge(server.info, LLM, None, min_score, parameters)

        def cached(groups: Sequence[QueryGroup], threshold: float | None) -> Verdicts:
            return server.client.judge(
                *(groups, replace(spec, min_score=threshold)),
                asking=_CACHED,
                include_details=details,
                timeout=timeout,
            )

        replay.cached = cached
    return replay


def _choice(options: TraceOptions, trace: Trace | None, parameters: Sequence[str]) -> str:
    """Return the judgements to take; "" leaves it to the trace, which then has one kind only."""
    named: str = getattr(options, "trace_judge", None) or ""
    if trace is None:
        return named
    if named:
        if named not in (names := trace.names()):
            known = ", ".join(names) or "none"
            raise Problem(f"--trace-judge {named}: {trace.name} has judgements by {known}")
        return named
    given = dict(text.partition("=")[::2] for text in parameters)
    asked = f"{LLM}/{given.get('rubric', 'retrieval_match')}"
    names = context_names(trace)
    return asked if parameters and (asked in names or not names) else ""


def open_score_replay(
    options: TraceOptions,
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
    replay = ScoreReplay(_read_trace(options, out))
    if from_cache or options.trace is None:

        def cached(items: Sequence[AnswerItem], rubrics: Sequence[Rubric]) -> ScoredAnswers:
            return server.client.score_answers(
                items, rubrics, include_replies=details, asking=_CACHED, timeout=timeout
            )

        replay.cached = cached
    return replay


@contextmanager
def replayed(
    options: TraceOptions, out: Output, replay: Replay | ScoreReplay, name: Name | None = None
) -> Iterator[None]:
    """Turn what a replay lacks into problems that say how to get it; warn of what differs."""
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
            f"{REPLAYED}: {of_all(error.missing, error.total, 'judgement', 'judgements')} by "
            f"{error.name} {word(error.missing, 'is', 'are')} not in "
            f"{_searched(options, replay)}{first}; to get {word(error.missing, 'it', 'them')}, "
            f"{_ONCE}{judge}"
        ) from None
    except UnclearName as error:
        raise Problem(f"{REPLAYED}: {error}, by --trace-judge NAME") from None
    except UnclearThreshold as error:
        raise Problem(f"{REPLAYED}: {error}, by --min-score") from None
    except ReplayError as error:
        if isinstance(error, OtherRubric) and error.lacking:
            raise Problem(
                f"{REPLAYED}: {error}; start the server with --rubrics-dir FOLDER, where FOLDER "
                f"has the file of {error.lacking}, and run this command again"
            ) from None
        raise Problem(f"{REPLAYED}: {error}; to judge anew, {_ONCE}") from None
    if replay.disagreements:
        n = plural(len(replay.disagreements), "verdict differs", "verdicts differ")
        out.warn(
            f"{n} between {options.trace} and the server's verdict cache; those of the trace "
            "count. Judge anew with --judge-refresh to settle it"
        )


def _searched(options: TraceOptions, replay: Replay | ScoreReplay) -> str:
    cache = ["the server's verdict cache"] if replay.cached is not None else []
    return " or in ".join([*([options.trace] if options.trace is not None else []), *cache])
