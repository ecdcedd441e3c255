"""`judged calibrate`: what a judge is worth, by lines that people have labelled.

The numbers are the server's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Annotated

import typer
from rich.table import Table

from judged import CalibrateOptions, Judge, LabelledScores, Status, Verdicts
from judged.cli.commands.judge import refuse_other
from judged.cli.connection import connect
from judged.cli.inputs.contexts import Line, contexts_of, fold_lines, of_lines, places, records
from judged.cli.options import common, intervals
from judged.cli.options.asking import (
    CacheOnly,
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
from judged.cli.options.traces import TraceTexts, kept_trace, read_tracing
from judged.cli.output.estimates import (
    cells,
    estimate_warnings,
    estimates_document,
    estimates_table,
    number,
)
from judged.cli.output.tables import plural, reason_warnings, verdict_warnings
from judged.cli.output.usage import describe_usage, report_estimate, usage_document, vote_warnings
from judged.cli.output.writer import STDOUT, Output, check_apart, new_table, progress_bar
from judged.cli.problems import Problem, explained
from judged.evaluation._steps.measuring import count_verdicts
from judged.evaluation.datasets.files import FileError
from judged.types import Calibration, Context, CorrectedEstimate, Estimate, JudgeQuality, Usage

LABEL = "relevant"
NO_JUDGE = "none"
"""What `--judge` is given when the lines hold their scores."""


@dataclass(frozen=True, slots=True)
class LabelledLine:
    """One line: its contexts or its score, its label and what it belongs to, if any."""

    number: int
    contexts: Sequence[Context]
    score: float | None
    label: bool | None
    query_id: str | None


@dataclass(frozen=True, slots=True)
class _Scored:
    """The lines that have a score, the judge that gave it, its threshold and its usage."""

    lines: Sequence[LabelledLine]
    scores: Sequence[float]
    signature: str | None
    min_score: float | None
    usage: Usage | None = None


def command(
    labels: Annotated[
        str,
        typer.Argument(
            metavar="LABELS.jsonl",
            help="Lines of {query, expected_text, retrieved_text, relevant: true|false|null}, "
            "query_id and expected_alternatives if there are any; - reads standard input.",
        ),
    ],
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
    judge_model: JudgeModel = None,
    judge_samples: JudgeSamples = None,
    judge_temperature: JudgeTemperature = None,
    judge_max_tokens: JudgeMaxTokens = None,
    judge_refresh: JudgeRefresh = False,
    cache_only: CacheOnly = False,
    estimate: EstimateOnly = False,
    max_cost: MaxCost = None,
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
    interval: intervals.Method = None,
    confidence: intervals.Confidence = None,
    resamples: intervals.Resamples = None,
    seed: intervals.Seed = None,
    target: common.Target = None,
    json_to: common.Json = None,
    timeout: common.Timeout = 3600.0,
    strict: common.Strict = False,
) -> None:
    """Hold a judge against human labels: its quality, its thresholds, its error carried along."""
    out = Output(json_to, strict=strict)
    check_apart({"LABELS.jsonl": labels}, json=json_to, trace=trace)
    refuse_other(judge)
    if (no_judge or judge == NO_JUDGE) and (profile or param or member or trace):
        raise Problem(
            "--profile, --param, --member and --trace are of a judge; --judge none asks none"
        )
    tracing = read_tracing(judge, trace, trace_texts, None, no_judge=no_judge)
    flags = llm_parameters(judge, judge_model, judge_samples, judge_temperature, judge_max_tokens)
    given = with_parameters(flags, param)
    check_costs(max_cost, estimate=estimate, replays=tracing.replays)
    asking = read_asking(judge, refresh=judge_refresh, cache_only=cache_only, max_cost=max_cost)
    with out.told_misspellings():
        lines = read_labels(labels, scored=tracing.replays, label_field=label_field)
    contexts = [Line(line.number, {}, line.contexts) for line in lines if line.contexts]
    groups = fold_lines(contexts)
    made = intervals.interval_options(interval, confidence, resamples, seed)
    kept = kept_trace(tracing, out)
    with connect(target) as server:
        if tracing.replays:
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
                if estimate:
                    report_estimate(out, server.client.estimate(groups, spec, asking=asking))
                    return
                verdicts = server.client.judge(
                    groups,
                    spec,
                    include_details=kept is not None,
                    asking=asking,
                    timeout=timeout,
                    progress=progress,
                )
                if kept is not None:
                    kept.record(groups, verdicts)
            scored = _scored(out, lines, of_lines(contexts, verdicts))
        asked = CalibrateOptions(scored.min_score, precision_floor, folds, max_error)
        with explained(place=_place):
            found = server.client.calibrate(_items(scored), asked, made)
    _report(out, found, scored)
    out.finish()


def _refuse_majority(spec: Judge) -> None:
    """Raise Problem for a panel whose verdicts no threshold on its score can give."""
    if spec.kind == "panel" and spec.profile in {"", "majority"}:
        raise Problem(
            "--judge panel: by majority most votes decide, whatever the threshold, so there "
            "is none to choose; calibrate it with --profile mean or --profile weighted"
        )


def read_labels(path: str, *, scored: bool, label_field: str = LABEL) -> list[LabelledLine]:
    """Return the lines of a file, or of standard input for "-". Raises FileError.

    Lines must hold a score when `scored`, and the texts of a context otherwise.
    """
    name = "standard input" if path == STDOUT else path
    lines = []
    for at, record in records(path, label_field, "query_id", "score"):
        label = record.get(label_field)
        if label is not None and not isinstance(label, bool):
            raise record.error(f"has {label_field!r} that is neither true, false nor null")
        contexts: Sequence[Context] = ()
        score = None
        if scored:
            score = record.optional_number("score")
            if score is None:
                raise record.error("has no 'score', which --judge none reads")
            if not 0 <= score <= 1:
                raise record.error("has 'score' that is not in 0 to 1")
        else:
            contexts = contexts_of(record)
        lines.append(
            LabelledLine(at, contexts, score, label, record.optional_identifier("query_id"))
        )
    if not lines:
        raise FileError(name, None, f"holds nothing; write lines with {label_field!r}")
    if all(line.label is None for line in lines):
        raise FileError(
            name,
            None,
            f"has no line with {label_field!r} true or false; label some lines, or name the field "
            "that holds the labels with --label-field",
        )
    return lines


def _scored(out: Output, lines: Sequence[LabelledLine], verdicts: Verdicts) -> _Scored:
    """Return the lines that the judge could score, labelled or not. Raises Problem."""
    refuse_missing(verdicts)
    if verdicts.usage is not None:
        out.note(describe_usage(verdicts.usage))
    told = [*verdict_warnings(count_verdicts(verdicts)), *reason_warnings(verdicts)]
    for warning in [*told, *vote_warnings(verdicts)]:
        out.warn(warning)
    kept = [i for i, status in enumerate(verdicts.status) if status == Status.OK]
    scored = [lines[i] for i in kept]
    if all(line.label is None for line in scored):
        errors = (e.message for i, e in verdicts.errors.items() if lines[i].label is not None)
        raise Problem(": ".join(["no line with a label could be judged", *islice(errors, 1)]))
    scores = [verdicts.score[i] for i in kept]
    judge = verdicts.judge
    return _Scored(scored, scores, judge.signature, judge.min_score, verdicts.usage)


def _items(scored: _Scored) -> LabelledScores:
    """Return what the server is asked about; a line without query_id is a cluster of its own."""
    clusters: list[str] = []
    if any(line.query_id is not None for line in scored.lines):
        clusters = [
            f"line {line.number}" if line.query_id is None else f"query {line.query_id}"
            for line in scored.lines
        ]
    return LabelledScores(scored.scores, [line.label for line in scored.lines], clusters)


def _place(field: str) -> str | None:
    """Return the flag that a field of the request was set by."""
    flags = {
        "min_score": "--min-score",
        "precision_floor": "--precision-floor",
        "max_error": "--max-error",
    }
    return flags.get(field)


def _report(out: Output, found: Calibration, scored: _Scored) -> None:
    quality, prevalence = _quality(found.quality), _prevalence(found.prevalence)
    crossed = {
        f"cross-validated {threshold.criterion.name.lower()}": threshold.cross_validated
        for threshold in found.thresholds
    }
    everything = {
        **quality,
        **crossed,
        **{f"prevalence {name}": one for name, one in prevalence.items()},
    }
    for warning in [
        *found.quality.warnings,
        *(f"prevalence: {warning}" for warning in found.prevalence.warnings),
        *estimate_warnings(everything),
    ]:
        out.warn(warning)
    out.show(estimates_table("quality", quality), "", _describe(found, scored), "")
    out.show(thresholds_table(found), "", _cascade(found), "")
    out.show(estimates_table("share of relevant items", prevalence))
    out.write_json(
        {
            "quality": {
                "n": found.quality.n,
                "true_positives": found.quality.true_positives,
                "false_positives": found.quality.false_positives,
                "true_negatives": found.quality.true_negatives,
                "false_negatives": found.quality.false_negatives,
                **estimates_document(quality),
            },
            "thresholds": [
                {
                    **asdict(threshold),
                    "criterion": threshold.criterion.name.lower(),
                }
                for threshold in found.thresholds
            ],
            "cascade": asdict(found.cascade),
            "prevalence": {
                **estimates_document(prevalence),
                "n": found.prevalence.n,
                "n_labelled": found.prevalence.n_labelled,
                "power": found.prevalence.power,
            },
            "judge": scored.signature,
            "signature": found.signature,
            **usage_document(scored.usage),
            "warnings": out.warnings,
        }
    )


def thresholds_table(found: Calibration) -> Table:
    """Return the thresholds: what each is best at, where it is, and what it is worth."""
    view = new_table("best threshold for", "min_score", "fitted", "held out", "lower", "upper")
    for threshold in found.thresholds:
        view.add_row(
            threshold.criterion.name.lower(),
            number(threshold.min_score),
            number(threshold.fitted),
            *cells(threshold.cross_validated),
        )
    return view


def _quality(quality: JudgeQuality) -> dict[str, Estimate | None]:
    return {
        "accuracy": quality.accuracy,
        "balanced_accuracy": quality.balanced_accuracy,
        "cohen_kappa": quality.cohen_kappa,
        "precision": quality.precision,
        "recall": quality.recall,
        "auc": quality.auc,
        "expected_calibration_error": quality.expected_calibration_error,
    }


def _prevalence(prevalence: CorrectedEstimate) -> dict[str, Estimate | None]:
    return {
        "naive": prevalence.naive,
        "corrected": prevalence.corrected,
        "labels_only": prevalence.labels_only,
    }


def _describe(found: Calibration, scored: _Scored) -> str:
    quality = found.quality
    judge = f"; {scored.signature}" if scored.signature else ""
    return (
        f"{plural(quality.n, 'label', 'labels')} of {plural(len(scored.lines), 'line', 'lines')}: "
        f"{quality.true_positives} true and {quality.false_positives} false positives, "
        f"{quality.true_negatives} true and {quality.false_negatives} false negatives{judge}"
    )


def _cascade(found: Calibration) -> str:
    cascade = found.cascade
    accept = "no score" if cascade.accept is None else f"from {cascade.accept:.4f}"
    reject = "no score" if cascade.reject is None else f"up to {cascade.reject:.4f}"
    return (
        f"cascade at an error of {cascade.max_error:g}: accept {accept}, reject {reject}, "
        f"{cascade.escalated:.1%} go on to a better judge"
    )
