"""`judged judge`: a verdict for every line of a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, TextIO

import typer

from judged import Asking, Flag, Judge, Source, Status, Verdict
from judged._batching.chunks import PASSING, failed_verdicts
from judged.cli.commands.judging.judgment_list import SUFFIX, check_ids, write_judgments
from judged.cli.connection import Access, connect
from judged.cli.inputs.contexts import (
    Line,
    blocks_of_contexts,
    check_expectations,
    count_contexts,
    count_lines,
    fold_lines,
    missing_line,
    of_lines,
    places,
    read_contexts,
    system_models,
)
from judged.cli.options import common
from judged.cli.options.asking import (
    AskingFlags,
    Details,
    ModelFlags,
    named_as_typed,
    refuse_missing,
    with_parameters,
)
from judged.cli.options.judges import JudgeFlags, stages_as_typed
from judged.cli.options.server import JudgingFlags
from judged.cli.options.system_models import tell_circular
from judged.cli.options.traces import TraceFlags, kept_trace
from judged.cli.output.tally import Tally
from judged.cli.output.usage import detail_document, report_estimate, usage_document
from judged.cli.output.writer import (
    STDOUT,
    Output,
    Report,
    check_apart,
    check_writable,
    open_output,
    progress_bar,
)
from judged.cli.problems import Problem, explained
from judged.cli.replay import open_replay, replay_warnings, replayed
from judged.evaluation.circular_judging import judging_models
from judged.evaluation.datasets.formats.content import json_line
from judged.types import JudgeIdentity, ServerInfo
from judged.types.verdicts import vote_agreement

_LEAST_S = 0.001
_ANSWERS = (
    *("status", "relevant", "score", "probability", "stage", "agreement", "source", "flags"),
    "error",
    "detail",
)


def command(
    contexts: Annotated[
        str,
        typer.Argument(
            metavar="CONTEXTS.jsonl",
            help="Lines of {query, expected_text, retrieved_text}, expected_alternatives if there "
            "are any; - reads standard input.",
        ),
    ],
    judge: common.JudgeKind = None,
    profile: common.Profile = None,
    min_score: common.MinScore = None,
    *,
    of_judge: JudgeFlags,
    model: ModelFlags,
    ask: AskingFlags,
    details: Details = False,
    traces: TraceFlags,
    output: Annotated[
        str,
        typer.Option(
            metavar="FILE|-",
            help="Where the judged lines go; FILE.qrels gets a judgment list for trec_eval.",
        ),
    ] = STDOUT,
    shared: JudgingFlags,
) -> None:
    """Judge every line of a file and print it with its verdict.

    With --output FILE lines are read as they are sent and not held, unless they are standard input,
    FILE is a judgment list, or --json, --trace, --judge none, --estimate, --cache-only or
    --max-cost need all at once.
    """
    out = shared.output()
    check_writable(output, "--output")
    check_apart(
        {"CONTEXTS.jsonl": contexts}, output=output, json=shared.json_to, trace=traces.trace
    )
    judge = of_judge.kind(judge)
    refuse_other(judge)
    tracing = traces.tracing(judge)
    kind = tracing.llm_kind(judge)
    flags = model.parameters(kind)
    given = with_parameters(flags, of_judge.param)
    asking = ask.asking(judge, replays=tracing.replays)

    spec_of = partial(
        of_judge.judge, kind=judge, profile=profile, min_score=min_score, parameters=given
    )
    whole = (
        shared.json_to is not None or tracing.path is not None or tracing.replays or ask.estimate
    )
    whole = whole or output.endswith(SUFFIX)
    if not (whole or ask.cache_only or ask.max_cost is not None or STDOUT in (contexts, output)):
        _judge_to_file(
            *(out, contexts, output, shared),
            spec_of,
            as_typed=partial(stages_as_typed, judge, of_judge.stage),
            flags=flags,
            details=details,
            asking=asking,
            timeout=shared.timeout,
        )
        return
    with out.told_misspellings():
        lines = read_contexts(contexts)
    if output.endswith(SUFFIX):
        check_ids(contexts, lines)
    groups = fold_lines(lines)
    kept = kept_trace(tracing, out)
    with (
        connect(shared) as server,
        named_as_typed(flags),
        stages_as_typed(judge, of_judge.stage),
        explained(place=places(contexts, lines, groups)),
        progress_bar("judging", len(lines)) as progress,
    ):
        if tracing.replays:
            if of_judge.calibration is not None:
                raise Problem("--calibration: a trace has the probabilities that it was made with")
            replay = open_replay(
                *(tracing, out, server, given, min_score),
                profile=profile,
                members=of_judge.member,
                details=details,
                timeout=shared.timeout,
            )
            name = missing_line(contexts, lines, groups)
            with replayed(tracing, replay, name):
                verdicts = replay.all_verdicts(groups, server.info.rubrics)
            out.warn(*replay_warnings(replay, tracing.path))
        else:
            spec = spec_of(server.info)
            check_expectations(out, contexts, spec, count_lines(lines), server.client)
            tell_circular(out, system_models(lines), judging_models(server.info, spec))
            if ask.estimate:
                report_estimate(out, server.client.estimate(groups, spec, asking=asking))
                return
            verdicts = server.client.judge(
                groups,
                spec,
                include_details=details or kept is not None,
                asking=asking,
                timeout=shared.timeout,
                progress=progress,
            )
            if kept is not None:
                kept.record(groups, verdicts)
        refuse_missing(verdicts)
    verdicts = of_lines(lines, verdicts)
    if not details:
        verdicts = replace(verdicts, details={})
    judged = [
        judged_line(line, verdict, verdicts.judge)
        for line, verdict in zip(lines, verdicts, strict=True)
    ]
    if output.endswith(SUFFIX):
        write_judgments(out, output, lines, verdicts, "--output")
    elif output != STDOUT or not out.takes_stdout:
        with open_output(output, "--output") as file:
            file.writelines(map(json_line, judged))
    tally = Tally()
    tally.add(verdicts)
    _tell(out, tally, _replaced(lines))
    out.write_json(
        {
            "verdicts": judged,
            "counts": tally.counts.to_dict(),
            "signature": verdicts.judge.signature,
            **usage_document(verdicts.usage),
            "warnings": out.warnings,
        }
    )
    out.finish()


def refuse_other(kind: str | None) -> None:
    """Raise Problem for a judge that no line of texts can be given to."""
    if kind == "span":
        raise Problem(
            "--judge span: compares places in files, and lines hold texts; use judged evaluate "
            "with 'expected_spans', or another judge"
        )
    if kind == "answers":
        raise Problem("--judge answers: scores answers, not contexts; use judged score")


def judged_line(line: Line, verdict: Verdict, judge: JudgeIdentity) -> dict[str, Any]:
    """Return a line with its verdict; a field of the input that has an answer's name gives way."""
    fields = {name: value for name, value in line.fields.items() if name not in _ANSWERS}
    fields["status"] = Status(verdict.status).name
    fields["relevant"] = verdict.relevant
    fields["score"] = verdict.score
    if verdict.probability is not None:
        fields["probability"] = verdict.probability
    if verdict.stage is not None:
        fields["stage"] = verdict.stage
    if (agreement := vote_agreement(verdict, judge)) is not None:
        fields["agreement"] = agreement
    fields["source"] = Source(verdict.source).name
    if verdict.flags:
        fields["flags"] = [flag.name for flag in Flag if flag & verdict.flags]
    if verdict.error is not None:
        fields["error"] = {"reason": verdict.error.reason, "message": verdict.error.message}
    if verdict.detail is not None:
        fields["detail"] = detail_document(verdict.detail)
    return fields


def _judge_to_file(
    out: Output,
    contexts: str,
    output: str,
    access: Access,
    spec_of: Callable[[ServerInfo], Judge],
    *,
    as_typed: Callable[[], AbstractContextManager[None]],
    flags: Sequence[str],
    details: bool,
    asking: Asking | None,
    timeout: float,
) -> None:
    """Judge a file block by block, so that memory does not grow with it.

    Its lines are all checked before the first one is judged. Where the server leaves for good, the
    lines from there on have its error.
    """
    with out.told_misspellings():
        counted = count_contexts(contexts)
    total = counted.contexts
    ends = time.monotonic() + timeout
    tally, replaced, done = Tally(), set[str](), 0
    with (
        connect(access) as server,
        named_as_typed(flags),
        as_typed(),
        progress_bar("judging", total) as progress,
    ):
        spec = spec_of(server.info)
        check_expectations(out, contexts, spec, counted, server.client)
        models, systems = judging_models(server.info, spec), set[str]()
        blocks = blocks_of_contexts(contexts)
        lines: list[Line] = next(blocks)
        with ExitStack() as opened:
            file: TextIO | None = None
            while lines:
                new = [name for name in system_models(lines) if name not in systems]
                systems.update(new)
                tell_circular(out, new, models)
                groups = fold_lines(lines)
                with explained(place=places(contexts, lines, groups)):
                    try:
                        verdicts = server.client.judge(
                            groups,
                            spec,
                            include_details=details,
                            asking=asking,
                            timeout=max(ends - time.monotonic(), _LEAST_S),
                            progress=_from(done, total, progress),
                        )
                    except PASSING as error:
                        if tally.judge is None:
                            raise
                        verdicts = failed_verdicts(groups, error, tally.judge)
                if file is None:
                    file = opened.enter_context(open_output(output, "--output"))
                done += len(verdicts)
                verdicts = of_lines(lines, verdicts)
                tally.add(verdicts)
                replaced.update(_replaced(lines))
                for line, verdict in zip(lines, verdicts, strict=True):
                    file.write(json_line(judged_line(line, verdict, verdicts.judge)))
                lines = next(blocks, [])
    _tell(out, tally, replaced)
    out.finish()


def _from(done: int, total: int, progress: Report | None) -> Report | None:
    """Return what to tell of the next block when `done` contexts of `total` are judged."""
    return None if progress is None else lambda more, _: progress(done + more, total)


def _tell(out: Output, tally: Tally, replaced: Collection[str]) -> None:
    tally.tell(out)
    if replaced:
        names = ", ".join(name for name in _ANSWERS if name in replaced)
        out.warn(f"the input has fields that the verdict replaced: {names}")


def _replaced(lines: Sequence[Line]) -> set[str]:
    return {name for name in _ANSWERS if any(name in line.fields for line in lines)}
