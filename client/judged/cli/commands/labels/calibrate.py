"""`judged calibrate`: what a judge is worth, by lines that people have labelled.

The numbers are the server's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

import typer

from judged import Asking, CalibrateOptions, Judge, LabelledScores, Rubric, Status, Verdicts
from judged.cli.commands.judging.judge import refuse_other
from judged.cli.commands.judging.score import flagged
from judged.cli.connection import Connection, connect
from judged.cli.field_path import flag_of
from judged.cli.inputs.answers import AnswerFile, read_answers
from judged.cli.inputs.contexts import Line, fold_lines, of_lines, places
from judged.cli.inputs.labels import LABEL, LabelledLine, cluster_of, read_labels
from judged.cli.options import common, intervals
from judged.cli.options.asking import KIND as LLM
from judged.cli.options.asking import (
    AskingFlags,
    ModelFlags,
    named_as_typed,
    refuse_missing,
    refuse_uncached,
    with_parameters,
)
from judged.cli.options.judges import Members, read_judge, with_members
from judged.cli.options.rubrics import read_rubrics
from judged.cli.options.server import JudgingFlags
from judged.cli.options.traces import TraceTexts, kept_trace, read_tracing
from judged.cli.output.calibration import report_calibration
from judged.cli.output.diagrams.reliability import reliability_diagram
from judged.cli.output.estimates import estimates_document
from judged.cli.output.scores import score_warnings
from judged.cli.output.usage import describe_usage, report_estimate, vote_warnings
from judged.cli.output.writer import (
    Output,
    check_apart,
    check_writable,
    open_output,
    progress_bar,
)
from judged.cli.problems import Problem, explained
from judged.evaluation._steps.warnings import reason_warnings, reasons_of, verdict_warnings
from judged.evaluation.labels import INCLUSION
from judged.values import (
    Calibration,
    Context,
    JudgeIdentity,
    ThresholdCriterion,
    Usage,
    VerdictCounts,
)
from judged.values.intervals import estimates_of

NO_JUDGE = "none"
"""What `--judge` is given when the lines hold their scores."""


_FLAGS = {
    "min_score": "--min-score",
    "precision_floor": "--precision-floor",
    "max_error": "--max-error",
    "max_share": "--max-share",
}


@dataclass(frozen=True, slots=True)
class _Scored:
    """The lines that have a score, the judge that gave it, its threshold and its usage."""

    lines: Sequence[LabelledLine]
    scores: Sequence[float]
    signature: str | None
    min_score: float | None
    usage: Usage | None = None
    judge: JudgeIdentity | None = None


def command(
    labels: Annotated[
        str,
        typer.Argument(
            metavar="LABELS.jsonl",
            help="Lines of {query, expected_text, retrieved_text, relevant: true|false|null}, "
            "query_id and expected_alternatives if there are any; - reads standard input.",
        ),
    ],
    rubric: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Calibrate the scores of this rubric instead of a judge: lines are answers, as "
            "`judged score` reads them, with `relevant` for those that people labelled.",
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="Judge, see `judged judges`; none reads `score` of the lines."
        ),
    ] = None,
    profile: common.Profile = None,
    min_score: common.MinScore = None,
    param: common.Parameters = None,
    member: Members = None,
    *,
    model: ModelFlags,
    ask: AskingFlags,
    trace: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Keep the judgements in this file, beside those it has."),
    ] = None,
    trace_texts: TraceTexts = None,
    no_judge: Annotated[
        bool, typer.Option("--no-judge", help="As --judge none: scores come from the lines.")
    ] = False,
    label_field: Annotated[
        str, typer.Option(metavar="NAME", help="The field that holds the labels.")
    ] = LABEL,
    precision_floor: Annotated[
        float | None,
        typer.Option(metavar="X", help="Precision that the third threshold must keep; 0.9."),
    ] = None,
    folds: Annotated[
        int | None, typer.Option(metavar="N", min=2, max=20, help="Folds of cross-validation; 5.")
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(metavar="X", help="Error that the cascade's bounds allow; 0.05."),
    ] = None,
    max_share: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Share of the items that the judge hands on as a stage of a cascade, in place of "
            "bounds by --max-error.",
        ),
    ] = None,
    criterion: Annotated[
        ThresholdCriterion | None,
        typer.Option(
            help="What the threshold of the calibration is best at; without it, it is the score "
            "whose probability is 0.5."
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Keep the calibration in this file, for --calibration; "
            "my.calibration.json for instance.",
        ),
    ] = None,
    diagram: Annotated[
        str | None,
        typer.Option(metavar="FILE.svg", help="Draw the reliability diagram into this file."),
    ] = None,
    interval: intervals.MethodFlags,
    shared: JudgingFlags,
) -> None:
    """Hold a judge against human labels.

    Tells its quality, the best threshold, and means corrected for its error.
    """
    out = shared.output()
    check_apart(
        {"LABELS.jsonl": labels}, json=shared.json_to, trace=trace, output=output, diagram=diagram
    )
    check_writable(output, "--output")
    check_writable(diagram, "--diagram")
    none = no_judge or judge == NO_JUDGE
    others = bool(profile or param or member or trace)
    _check_judge(judge, rubric, none=none, others=others, output=output)
    tracing = read_tracing(judge, trace, trace_texts, None, no_judge=no_judge)
    kind = LLM if rubric is not None else judge
    flags = model.parameters(kind)
    given = with_parameters(flags, param)
    asking = ask.asking(kind, replays=tracing.replays)
    with out.told_misspellings():
        answers = None if rubric is None else read_answers(labels, label_field=label_field)
        scored_lines = tracing.replays
        lines = [] if answers else read_labels(labels, scored=scored_lines, label_field=label_field)
    contexts = [Line(line.number, {}, line.contexts) for line in lines if line.contexts]
    groups = fold_lines(contexts)
    made = interval.options()
    kept = kept_trace(tracing, out)
    with connect(shared) as server:
        if answers is not None and rubric is not None:
            with named_as_typed(flags), flagged([rubric], answers.place()):
                (by,) = read_rubrics([rubric], server.info, min_score, given, None)
                if ask.estimate:
                    report_estimate(out, server.client.estimate_scores(answers.items, [by]))
                    return
                scored = _scored_answers(out, server, answers, by, asking, shared.timeout)
        elif tracing.replays:
            scores = [line.score for line in lines if line.score is not None]
            scored = _Scored(lines, scores, None, min_score)
        else:
            with (
                named_as_typed(flags),
                explained(place=places(labels, contexts, groups)),
                progress_bar("judging", len(lines)) as progress,
            ):
                spec = read_judge(server.info, judge, profile, min_score, given)
                spec = with_members(spec, server.info, member)
                _refuse_majority(spec)
                if ask.estimate:
                    report_estimate(out, server.client.estimate(groups, spec, asking=asking))
                    return
                verdicts = server.client.judge(
                    groups,
                    spec,
                    include_details=kept is not None,
                    asking=asking,
                    timeout=shared.timeout,
                    progress=progress,
                )
                if kept is not None:
                    kept.record(groups, verdicts)
            scored = _scored(out, lines, of_lines(contexts, verdicts))
        asked = CalibrateOptions(
            *(scored.min_score, precision_floor, folds, max_error, scored.judge),
            *(criterion, max_share),
        )
        with explained(place=flag_of(_FLAGS)):
            found = server.client.calibrate(_items(scored), asked, made)
    report_calibration(out, found, len(scored.lines), scored.signature, scored.usage)
    _keep(found, scored, output, diagram)
    out.finish()


def _keep(found: Calibration, scored: _Scored, output: str | None, diagram: str | None) -> None:
    """Write the calibration and its diagram. Raises Problem where labels made none to keep."""
    believed = found.reliability
    if believed is None:
        return
    if diagram is not None:
        with open_output(diagram, "--diagram") as file:
            file.write(reliability_diagram(believed, scored.signature or "scores of the lines"))
    if output is not None:
        if not believed.fitted:
            why = believed.calibrator.not_fitted or "there are too few labels"
            raise Problem(f"--output {output}: there is nothing to keep: {why}")
        believed.calibrator.save(
            output,
            judge=scored.signature,
            n_labels=believed.n_labels,
            n_queries=believed.n_clusters,
            **estimates_document(estimates_of(believed)),
        )


def _refuse_majority(spec: Judge) -> None:
    """Raise Problem for a panel whose verdicts no threshold on its score can give."""
    if spec.kind == "panel" and spec.profile in {"", "majority"}:
        raise Problem(
            "--judge panel: by majority most votes decide, whatever the threshold, so there "
            "is none to choose; calibrate it with --profile mean or --profile weighted"
        )


def _scored(out: Output, lines: Sequence[LabelledLine], verdicts: Verdicts) -> _Scored:
    """Return the lines that the judge could score, labelled or not. Raises Problem."""
    refuse_missing(verdicts)
    if verdicts.usage is not None:
        out.note(describe_usage(verdicts.usage))
    out.warn(
        *verdict_warnings(VerdictCounts.of(verdicts)),
        *reason_warnings(reasons_of(verdicts)),
        *vote_warnings(verdicts),
    )
    kept = [i for i, status in enumerate(verdicts.status) if status == Status.OK]
    scored = [lines[i] for i in kept]
    if all(line.label is None for line in scored):
        errors = (e.message for i, e in verdicts.errors.items() if lines[i].label is not None)
        raise Problem(": ".join(["no line with a label could be judged", *islice(errors, 1)]))
    scores = [verdicts.score[i] for i in kept]
    judge = verdicts.judge
    return _Scored(scored, scores, judge.signature, judge.min_score, verdicts.usage, judge)


def _check_judge(
    judge: str | None, rubric: str | None, *, none: bool, others: bool, output: str | None
) -> None:
    """Raise Problem for flags of a judge where there is none, or where a rubric is asked for."""
    if output is not None and none:
        raise Problem(
            "--output: a calibration is of one judge, and --judge none does not say which; name "
            "the judge"
        )
    refuse_other(judge)
    if rubric is not None and (none or judge or others):
        raise Problem(
            "--rubric: takes the place of a judge; leave out --judge, --profile, --member, "
            "--param and --trace"
        )
    if none and others:
        raise Problem(
            "--profile, --param, --member and --trace are of a judge; --judge none asks none"
        )


def _scored_answers(
    out: Output,
    server: Connection,
    answers: AnswerFile,
    rubric: Rubric,
    asking: Asking | None,
    timeout: float,
) -> _Scored:
    """Return the answers that have a score, labelled or not, as lines. Raises Problem."""
    with progress_bar("scoring", len(answers.items)) as progress:
        found = server.client.score_answers(
            answers.items, [rubric], asking=asking, timeout=timeout, progress=progress
        )
    refuse_uncached(found.errors.values(), len(found))
    out.note(describe_usage(found.usage))
    out.warn(*score_warnings(found))
    lines, scores = [], []
    columns = zip(answers.items, answers.line_numbers, answers.labels, found, strict=True)
    for item, number, label, score in columns:
        if score.score is not None:
            lines.append(LabelledLine(number, [Context(item.query, "", "")], None, label, None))
            scores.append(score.score)
    judge = found.rubrics[0].judge
    if judge is None or all(line.label is None for line in lines):
        said = (error.message for error in found.errors.values())
        raise Problem(": ".join(["no line with a label could be scored", *islice(said, 1)]))
    return _Scored(lines, scores, judge.signature, judge.min_score, found.usage, judge)


def _items(scored: _Scored) -> LabelledScores:
    """Return what the server is asked about: lines of one query are a cluster.

    Those are lines with the same query_id, or without one with the same query.
    """
    clusters = [cluster_of(line) or f"line {line.number}" for line in scored.lines]
    if len(set(clusters)) == len(clusters):
        clusters = []
    inclusion = [line.inclusion for line in scored.lines if line.inclusion is not None]
    if len(inclusion) not in {0, len(scored.lines)}:
        raise Problem(
            f"{INCLUSION!r} is on {len(inclusion)} of {len(scored.lines)} lines; give it on all, "
            "or on none"
        )
    labels = [line.label for line in scored.lines]
    return LabelledScores(scored.scores, labels, clusters, inclusion)
