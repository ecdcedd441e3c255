"""`judged score`: answers of a system, scored by rubrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer

from judged import ScoredAnswers, Source, Status
from judged.cli.connection import connect
from judged.cli.field_path import Place
from judged.cli.inputs.answers import read_answers
from judged.cli.options import common
from judged.cli.options.asking import (
    KIND,
    AskingFlags,
    named_as_typed,
    refuse_uncached,
    with_parameters,
)
from judged.cli.options.calibrations import RubricCalibrations, with_calibrations
from judged.cli.options.gates import MinCoverage
from judged.cli.options.rubrics import (
    Details,
    MinScores,
    PerItem,
    RubricModelFlags,
    Rubrics,
    Thresholds,
    Weights,
    as_flag,
    read_rubrics,
    read_thresholds,
)
from judged.cli.options.score_panels import CombineFlag, PanelModels, read_panel
from judged.cli.options.server import JudgingFlags
from judged.cli.options.system_models import tell_circular
from judged.cli.options.traces import (
    FLAG,
    NONE,
    NoJudge,
    TraceFile,
    TraceTexts,
    kept_trace,
    read_tracing,
)
from judged.cli.output.gates import finish, gates_document, hold_items
from judged.cli.output.scores import (
    describe_scores,
    items_table,
    member_score,
    rubrics_table,
    score_line,
    score_warnings,
    scores_document,
)
from judged.cli.output.usage import describe_usage, report_estimate
from judged.cli.output.writer import (
    STDOUT,
    Output,
    check_apart,
    check_writable,
    open_output,
    progress_bar,
)
from judged.cli.problems import Problem, explained
from judged.cli.replay import open_score_replay, replay_warnings, replayed
from judged.errors import JudgedError
from judged.evaluation.circular_judging import scoring_models
from judged.evaluation.datasets.formats.content import json_line


def command(
    answers: Annotated[
        str,
        typer.Argument(
            metavar="ANSWERS.jsonl",
            help="Lines of {item_id, query, answer, references, contexts}; - reads standard input.",
        ),
    ],
    rubric: Rubrics,
    min_score: MinScores = None,
    min_coverage: MinCoverage = None,
    weights: Weights = None,
    calibration: RubricCalibrations = None,
    *,
    model: RubricModelFlags,
    member: PanelModels = None,
    combine: CombineFlag = None,
    ask: AskingFlags,
    param: common.Parameters = None,
    per_item: PerItem = False,
    details: Details = False,
    judge: Annotated[
        str | None,
        typer.Option("--judge", metavar="none", help="Ask no model: see --trace and --no-judge."),
    ] = None,
    trace: TraceFile = None,
    trace_texts: TraceTexts = None,
    no_judge: NoJudge = False,
    output: Annotated[
        str | None,
        typer.Option(metavar="FILE|-", help="Write every score as a JSON line; - prints them."),
    ] = None,
    shared: JudgingFlags,
) -> None:
    """Score answers by rubrics."""
    out = shared.output()
    check_writable(output, "--output")
    check_apart({"ANSWERS.jsonl": answers}, output=output, json=shared.json_to, trace=trace)
    thresholds = read_thresholds(min_score or [], rubric)
    refuse_judge(judge)
    tracing = read_tracing(judge, trace, trace_texts, None, no_judge=no_judge)
    if tracing.replays and calibration:
        raise Problem(f"--calibration and {FLAG} exclude each other: a trace has bare scores")
    if tracing.replays and ask.judge_refresh:
        raise Problem(f"--judge-refresh and {FLAG} exclude each other; say one of them")
    asking = ask.asking(KIND, replays=tracing.replays)
    with out.told_misspellings():
        file = read_answers(answers)
    flags = model.parameters(KIND)
    given = with_parameters(flags, param)
    panel = read_panel(
        *(member, combine, given),
        calibrated=bool(calibration),
        traced=trace is not None or tracing.replays,
    )
    members: dict[str, ScoredAnswers] = {}
    kept = kept_trace(tracing, out)
    with (
        connect(shared) as server,
        named_as_typed(flags),
        flagged(rubric, file.place()),
        progress_bar("scoring", len(file.items) * len(rubric)) as progress,
    ):
        rubrics = read_rubrics(rubric, server.info, thresholds.threshold, given, weights)
        by_model = panel.by_model(rubrics, server.info)
        if not tracing.replays:
            asked = [rubric for some in by_model for rubric in some]
            tell_circular(out, file.system_models, scoring_models(server.info, asked))
        rubrics = with_calibrations(rubrics, server.info, calibration)
        if tracing.replays:
            told = given or weights
            replay = open_score_replay(
                tracing, out, server, from_cache=bool(told), details=details, timeout=shared.timeout
            )
            with replayed(tracing, replay):
                found = replay.scores(file.items, rubrics, server.info.rubrics)
            out.warn(*replay_warnings(replay, trace))
        elif ask.estimate:
            each = [
                server.client.estimate_scores(file.items, some, asking=asking) for some in by_model
            ]
            report_estimate(out, sum(each[1:], each[0]))
            return
        else:
            scored = panel.scores(
                *(server.client, file.items, rubrics),
                include_replies=details,
                asking=asking,
                timeout=shared.timeout,
                progress=progress,
            )
            found, members = scored.scores, scored.members
            if kept is not None:
                kept.record_scores(file.items, found, server.info.rubrics)
        for some in members.values() or [found]:
            refuse_uncached(some.errors.values(), len(some))
    report(
        *(out, found, members, thresholds, output),
        min_scores=file.min_scores,
        min_coverage=min_coverage,
        per_item=per_item,
        details=details,
    )


def refuse_judge(judge: str | None) -> None:
    """Raise Problem for a judge other than none."""
    if judge not in {None, NONE}:
        raise Problem(
            f"--judge {judge}: answers are scored by language models, see --judge-model; only "
            "--judge none is there"
        )


@contextmanager
def flagged(rubrics: Sequence[str], place: Place) -> Iterator[None]:
    """Turn errors of the call into problems that speak of flags, and of places in the file."""
    with explained(place=place):
        try:
            yield
        except JudgedError as error:
            problem = as_flag(error, rubrics)
            if problem is None:
                raise
            raise problem from error


def report(
    out: Output,
    found: ScoredAnswers,
    members: Mapping[str, ScoredAnswers],
    thresholds: Thresholds,
    output: str | None,
    *,
    min_scores: Mapping[str, float],
    min_coverage: float | None,
    per_item: bool,
    details: bool,
) -> None:
    """Print the table with what it was made from, and write lines and the JSON document.

    `min_scores` are what the scores of single items must reach, by their lines. `members` are the
    scores of the models of a panel, whose score is `found`.
    """
    lines = [score_line(score, details=details) for score in found]
    for model, of_model in members.items():
        for line, score in zip(lines, of_model, strict=True):
            line.setdefault("members", {})[model] = member_score(score, details=details)
    if output is not None and not (output == STDOUT and out.takes_stdout):
        with open_output(output, "--output") as file:
            file.writelines(map(json_line, lines))
    out.warn(*score_warnings(found))
    failed = sum(score.status is Status.ERROR for score in found)
    out.count(failed=failed, total=len(found), errors=found.errors.values())
    outcomes = thresholds.outcomes(found.rubrics, min_coverage)
    if min_scores:
        outcomes = [*outcomes, hold_items(found, min_scores)]
    judges = {s.judge.signature: None for s in found.rubrics if s.judge is not None}
    made_from = [describe_scores(found), *(f"judge {signature}" for signature in judges)]
    if any(score.source is not Source.REPLAY for score in found):  # else nobody was asked
        made_from.append(describe_usage(found.usage))
    if output == STDOUT:  # the lines have standard output to themselves
        for text in made_from:
            out.note(text)
    else:
        if per_item:
            out.show(items_table(found), "")
        out.show(rubrics_table(found), "", "\n".join(made_from))
    out.write_json({**scores_document(found, lines, out.warnings), **gates_document(outcomes)})
    finish(out, outcomes)
