"""`judged judge`: a verdict for every line of a file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer

from judged import Flag, Source, Status, Verdict, Verdicts
from judged.cli.connection import connect
from judged.cli.inputs.contexts import (
    Line,
    fold_lines,
    missing_line,
    of_lines,
    places,
    read_contexts,
)
from judged.cli.options import common
from judged.cli.options.asking import (
    CacheOnly,
    Details,
    EstimateOnly,
    JudgeMaxTokens,
    JudgeModel,
    JudgeRefresh,
    JudgeSamples,
    JudgeTemperature,
    MaxCost,
    check_costs,
    llm_parameters,
    named_as_typed,
    read_asking,
    refuse_missing,
    with_parameters,
)
from judged.cli.options.judges import Members, read_judge, with_members
from judged.cli.options.traces import (
    NoJudge,
    TraceFile,
    TraceJudge,
    TraceTexts,
    kept_trace,
    read_tracing,
)
from judged.cli.output.tables import (
    describe_verdicts,
    reason_warnings,
    verdict_warnings,
    verdicts_document,
)
from judged.cli.output.usage import (
    describe_usage,
    detail_document,
    report_estimate,
    usage_document,
    vote_warnings,
)
from judged.cli.output.writer import (
    STDOUT,
    Output,
    check_apart,
    check_writable,
    open_output,
    progress_bar,
)
from judged.cli.problems import Problem, explained
from judged.cli.replay import open_replay, replay_warnings, replayed
from judged.evaluation._steps.measuring import count_verdicts
from judged.types import JudgeIdentity
from judged.types.verdicts import vote_agreement

_ANSWERS = ("status", "relevant", "score", "agreement", "source", "flags", "error", "detail")


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
    param: common.Parameters = None,
    member: Members = None,
    judge_model: JudgeModel = None,
    judge_samples: JudgeSamples = None,
    judge_temperature: JudgeTemperature = None,
    judge_max_tokens: JudgeMaxTokens = None,
    judge_refresh: JudgeRefresh = False,
    cache_only: CacheOnly = False,
    estimate: EstimateOnly = False,
    max_cost: MaxCost = None,
    details: Details = False,
    trace: TraceFile = None,
    trace_texts: TraceTexts = None,
    trace_judge: TraceJudge = None,
    no_judge: NoJudge = False,
    output: Annotated[
        str, typer.Option(metavar="FILE|-", help="Where the judged lines go.")
    ] = STDOUT,
    target: common.Target = None,
    json_to: common.Json = None,
    timeout: common.Timeout = 3600.0,
    strict: common.Strict = False,
) -> None:
    """Judge every line of a file and print it with its verdict."""
    out = Output(json_to, strict=strict)
    check_writable(output, "--output")
    check_apart({"CONTEXTS.jsonl": contexts}, output=output, json=json_to, trace=trace)
    refuse_other(judge)
    tracing = read_tracing(judge, trace, trace_texts, trace_judge, no_judge=no_judge)
    kind = tracing.llm_kind(judge)
    flags = llm_parameters(kind, judge_model, judge_samples, judge_temperature, judge_max_tokens)
    given = with_parameters(flags, param)
    check_costs(max_cost, estimate=estimate, replays=tracing.replays)
    asking = read_asking(judge, refresh=judge_refresh, cache_only=cache_only, max_cost=max_cost)
    with out.told_misspellings():
        lines = read_contexts(contexts)
    groups = fold_lines(lines)
    kept = kept_trace(tracing, out)
    with (
        connect(target) as server,
        named_as_typed(flags),
        explained(place=places(contexts, lines, groups)),
        progress_bar("judging", len(lines)) as progress,
    ):
        if tracing.replays:
            replay = open_replay(
                *(tracing, out, server, given, min_score),
                profile=profile,
                members=member,
                details=details,
                timeout=timeout,
            )
            with replayed(
                *(tracing, replay, server, min_score, missing_line(contexts, lines, groups))
            ):
                verdicts = replay.all_verdicts(groups, server.info.rubrics)
            for warning in replay_warnings(replay, trace):
                out.warn(warning)
        else:
            spec = read_judge(server.info, judge, profile, min_score, given)
            spec = with_members(spec, server.info, member)
            if estimate:
                report_estimate(out, server.client.estimate(groups, spec, asking=asking))
                return
            verdicts = server.client.judge(
                groups,
                spec,
                include_details=details or kept is not None,
                asking=asking,
                timeout=timeout,
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
    if output != STDOUT or not out.takes_stdout:
        with open_output(output, "--output") as file:
            for fields in judged:
                file.write(json.dumps(fields, ensure_ascii=False) + "\n")
    _remark(out, lines, verdicts)
    out.write_json(
        {
            "verdicts": judged,
            "counts": verdicts_document(count_verdicts(verdicts)),
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


def _remark(out: Output, lines: Sequence[Line], verdicts: Verdicts) -> None:
    """Say how it went: one line, and a warning for everything that needs one."""
    counts = count_verdicts(verdicts)
    out.note(f"{describe_verdicts(counts)}; {verdicts.judge.signature}")
    if verdicts.usage is not None:
        out.note(describe_usage(verdicts.usage))
    told = [*verdict_warnings(counts), *reason_warnings(verdicts), *vote_warnings(verdicts)]
    for warning in told:
        out.warn(warning)
    out.count(failed=counts.error, total=counts.total, errors=verdicts.errors.values())
    replaced = list(_replaced(lines))
    if replaced:
        out.warn(f"the input has fields that the verdict replaced: {', '.join(replaced)}")


def _replaced(lines: Sequence[Line]) -> Iterator[str]:
    for name in _ANSWERS:
        if any(name in line.fields for line in lines):
            yield name
