"""`judged judge`: a verdict for every line of a file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated, Any, TextIO

import typer

from judged import Asking, Client, Flag, Judge, Source, Status, Verdict, Verdicts
from judged._batching.chunks import PASSING, failed_verdicts
from judged.cli.commands.judging.judgment_list import SUFFIX, check_ids, write_judgments
from judged.cli.connection import connect
from judged.cli.inputs.contexts import (
    Line,
    blocks_of_contexts,
    check_expectations,
    count_lines,
    fold_lines,
    missing_line,
    of_lines,
    places,
    read_contexts,
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
from judged.cli.options.traces import KeptTrace, TraceFlags, kept_trace
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
from judged.values import JudgeIdentity
from judged.values.verdicts import vote_agreement

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

    whole = shared.json_to is not None or tracing.path is not None or tracing.replays
    whole = whole or ask.estimate or ask.cache_only or ask.max_cost is not None
    whole = whole or output.endswith(SUFFIX) or STDOUT in (contexts, output)
    with out.told_misspellings():
        held = list(read_contexts(contexts)) if whole else []
        counted = count_lines(held if whole else read_contexts(contexts))
    if output.endswith(SUFFIX):
        check_ids(contexts, held)
    kept = kept_trace(tracing, out)
    tally, replaced = Tally(), set[str]()
    with (
        connect(shared) as server,
        named_as_typed(flags),
        stages_as_typed(judge, of_judge.stage),
        explained(),
        ExitStack() as opened,
        progress_bar("judging", counted.contexts) as progress,
    ):
        found: Iterable[tuple[Sequence[Line], Verdicts]]
        if tracing.replays:
            replay = open_replay(
                *(tracing, out, server, given, min_score),
                of_judge,
                profile,
                details=details,
                timeout=shared.timeout,
            )
            groups = fold_lines(held)
            name = missing_line(contexts, held, groups)
            with replayed(tracing, replay, name):
                found = [(held, replay.all_verdicts(groups, server.info.rubrics))]
            out.warn(*replay_warnings(replay, tracing.path))
        else:
            spec = of_judge.judge(server.info, judge, profile, min_score, given)
            check_expectations(out, contexts, spec, counted, server.client)
            tell_circular(out, counted.system_models, judging_models(server.info, spec))
            if ask.estimate:
                groups = fold_lines(held)
                with explained(place=places(contexts, held, groups)):
                    report_estimate(out, server.client.estimate(groups, spec, asking=asking))
                return
            found = _ask(
                *(server.client, spec, asking, contexts),
                [held] if whole else blocks_of_contexts(contexts),
                kept,
                details=details,
                timeout=shared.timeout,
                progress=progress,
                total=counted.contexts,
            )
        file: TextIO | None = None
        for lines, each in found:
            refuse_missing(each)
            verdicts = of_lines(lines, each)
            tally.add(verdicts)
            replaced.update(name for line in lines for name in line.fields if name in _ANSWERS)
            if not whole:
                file = file or opened.enter_context(open_output(output, "--output"))
                file.writelines(map(json_line, _judged(lines, verdicts)))
    if whole:
        _write(out, output, held, verdicts)
    tally.tell(out)
    if replaced:
        names = ", ".join(name for name in _ANSWERS if name in replaced)
        out.warn(f"the input has fields that the verdict replaced: {names}")
    if out.writes_json:
        out.write_json(
            {
                "verdicts": list(_judged(held, verdicts)),
                "counts": tally.counts.to_dict(),
                "signature": verdicts.judge.signature,
                **usage_document(verdicts.usage),
                "warnings": out.warnings,
            }
        )
    out.finish()


def _ask(
    client: Client,
    spec: Judge,
    asking: Asking | None,
    contexts: str,
    blocks: Iterable[list[Line]],
    kept: KeptTrace | None,
    *,
    details: bool,
    timeout: float,
    progress: Report | None,
    total: int,
) -> Iterator[tuple[Sequence[Line], Verdicts]]:
    """Yield each block with its verdicts: errors where the server leaves for good after one."""
    ends, done = time.monotonic() + timeout, 0
    judge: JudgeIdentity | None = None
    for lines in blocks:
        groups = fold_lines(lines)
        with explained(place=places(contexts, lines, groups)):
            try:
                verdicts = client.judge(
                    groups,
                    spec,
                    include_details=details or kept is not None,
                    asking=asking,
                    timeout=max(ends - time.monotonic(), _LEAST_S),
                    progress=_from(done, total, progress),
                )
            except PASSING as error:
                if judge is None:
                    raise
                verdicts = failed_verdicts(groups, error, judge)
        if kept is not None:
            kept.record(groups, verdicts)
        judge, done = verdicts.judge, done + len(verdicts)
        yield lines, verdicts if details else replace(verdicts, details={})


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


def _judged(lines: Sequence[Line], verdicts: Verdicts) -> Iterator[dict[str, Any]]:
    for line, verdict in zip(lines, verdicts, strict=True):
        yield judged_line(line, verdict, verdicts.judge)


def _write(out: Output, output: str, lines: Sequence[Line], verdicts: Verdicts) -> None:
    if output.endswith(SUFFIX):
        write_judgments(out, output, lines, verdicts, "--output")
    elif output != STDOUT or not out.takes_stdout:
        with open_output(output, "--output") as file:
            file.writelines(map(json_line, _judged(lines, verdicts)))


def _from(done: int, total: int, progress: Report | None) -> Report | None:
    """Return what to tell of the next block when `done` contexts of `total` are judged."""
    return None if progress is None else lambda more, _: progress(done + more, total)
