"""`judged frontier`: which judges a cascade should have, by lines that people have labelled.

The cascades and their guarantees are the server's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Annotated

import typer

from judged import (
    Asking,
    CacheMode,
    FailedPrecondition,
    InvalidArgument,
    Judge,
    NotFound,
    QueryGroup,
    Status,
)
from judged._convert.judges import Purse
from judged.cli.connection import Connection, connect
from judged.cli.field_path import flag_of
from judged.cli.inputs.contexts import Line, fold_lines, of_lines, places
from judged.cli.inputs.labels import LABEL, LabelledLine, cluster_of, read_labels
from judged.cli.options import intervals
from judged.cli.options.asking import EstimateOnly, JudgeRefresh, MaxCost, refuse_missing
from judged.cli.options.judges import read_stage, without_key
from judged.cli.options.server import JudgingFlags
from judged.cli.output.diagrams.frontier import frontier_diagram
from judged.cli.output.frontier import (
    describe_stages,
    frontier_document,
    frontier_table,
)
from judged.cli.output.usage import describe_guarantee, describe_usage, report_estimate
from judged.cli.output.writer import (
    Output,
    check_apart,
    check_writable,
    open_output,
    progress_bar,
)
from judged.cli.problems import Problem, explain, explained
from judged.values import (
    CascadeFrontier,
    CascadeOptions,
    CostEstimate,
    ScoredStage,
    StagedLabels,
    save_cascade,
)

_PRICED, _CALLED, _TYPED = "cost", "calls", "price"
"""What the cost of an item is counted in: money, calls where a price is missing, what was typed."""


_FLAGS = {
    "max_error": "--max-error",
    "max_share": "--max-share",
    "max_cost": "--max-item-cost",
    "stages": "--stage",
    "clusters": "LABELS.jsonl",
    "labels": "LABELS.jsonl",
}


@dataclass(frozen=True, slots=True)
class _Stage:
    """A judge as it was typed, and the price of an item where one was."""

    name: str
    judge: Judge
    price: float | None


def command(
    labels: Annotated[
        str,
        typer.Argument(
            metavar="LABELS.jsonl",
            help="Lines of {query, expected_text, retrieved_text, relevant: true|false}, query_id "
            "and expected_alternatives if there are any; - reads standard input.",
        ),
    ],
    stage: Annotated[
        list[str],
        typer.Option(
            "--stage",
            metavar="KIND[/PROFILE][:K=V,...]",
            help="Judge that the cascade may have, as in llm:model=large; price=X says what an "
            "item costs, where the server's prices do not. Repeat it for each.",
        ),
    ],
    max_error: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Propose the cheapest cascade that is wrong in at most this share; 0.05.",
        ),
    ] = None,
    max_share: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Propose the most accurate one that asks the dearest judge about at most this "
            "share.",
        ),
    ] = None,
    max_item_cost: Annotated[
        float | None,
        typer.Option(
            metavar="X",
            help="Propose the most accurate one that costs at most this an item, in the mean.",
        ),
    ] = None,
    abstain: Annotated[
        bool,
        typer.Option("--abstain", help="Leave what no stage is sure of without a verdict."),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Keep the proposed cascade in this file, for --cascade; my.cascade.json for "
            "instance.",
        ),
    ] = None,
    diagram: Annotated[
        str | None,
        typer.Option(metavar="FILE.svg", help="Draw accuracy against cost into this file."),
    ] = None,
    label_field: Annotated[
        str, typer.Option(metavar="NAME", help="The field that holds the labels.")
    ] = LABEL,
    judge_refresh: JudgeRefresh = False,
    estimate: EstimateOnly = False,
    max_cost: MaxCost = None,
    confidence: intervals.Confidence = None,
    seed: intervals.Seed = None,
    *,
    shared: JudgingFlags,
) -> None:
    """Propose a cascade of judges from labels.

    Says which judges, in which order, and what goes on to the next.
    """
    out = shared.output()
    check_apart({"LABELS.jsonl": labels}, json=shared.json_to, output=output, diagram=diagram)
    check_writable(output, "--output")
    check_writable(diagram, "--diagram")
    with out.told_misspellings():
        read = read_labels(labels, scored=False, label_field=label_field)
    lines = [line for line in read if line.label is not None]
    contexts = [Line(line.number, {}, line.contexts) for line in lines]
    groups = fold_lines(contexts)
    cache = CacheMode.REFRESH if judge_refresh else CacheMode.USE
    asking: Asking | None = Asking(cache, max_cost)
    with (
        connect(shared) as server,
        explained(place=places(labels, contexts, groups)),
    ):
        stages = [_read(server, text) for text in stage]
        would = [_estimate(server, one, groups) for one in stages]
        if estimate:
            report_estimate(out, sum(would, CostEstimate()))
            return
        costs, unit = _costs(stages, would, len(lines))
        scored = []
        for one, cost in zip(stages, costs, strict=True):
            found_scores, spent = _scored(
                out, server, one, cost, contexts, groups, asking, shared.timeout
            )
            scored.append(found_scores)
            asking = Purse(asking, spent).rest()  # one limit for all stages
        with explained(place=flag_of(_FLAGS)):
            found = server.client.calibrate_cascade(
                _labelled(lines, scored),
                CascadeOptions(*(max_error, max_share, max_item_cost, abstain, confidence, seed)),
            )
    _report(out, found, stages, costs, unit)
    _keep(found, stages, output, diagram, unit)
    out.finish()


_ANEW = Asking(CacheMode.REFRESH)
"""Prices are those of questions that nobody asked before."""


def _read(server: Connection, text: str) -> _Stage:
    plain, prices = without_key(text, "price")
    if "calibration=" in plain:
        raise Problem(
            f"--stage {text}: stages are calibrated here, on what the earlier ones leave; leave "
            "calibration out"
        )
    price = None
    for given in prices:
        try:
            price = float(given)
        except ValueError:
            price = math.nan
        if not (math.isfinite(price) and price >= 0):
            raise Problem(f"--stage {text}: price must be a number, 0 or more")
    return _Stage(plain, read_stage(server.info, plain), price)


def _estimate(server: Connection, stage: _Stage, groups: Sequence[QueryGroup]) -> CostEstimate:
    """Return what it would take to ask a stage about everything."""
    with _named(stage):
        return server.client.estimate(groups, stage.judge, asking=_ANEW)


@contextmanager
def _named(stage: _Stage) -> Iterator[None]:
    """Let problems with the judge of a stage name the `--stage` that was typed."""
    try:
        yield
    except (FailedPrecondition, InvalidArgument, NotFound) as error:
        if isinstance(error, InvalidArgument) and not error.field.startswith("judge."):
            raise  # a place in the file
        told = explain(error)
        for flag in ("--param ", "--judge: ", "--profile: "):
            told = told.removeprefix(flag)
        raise Problem(f"--stage {stage.name}: {told}") from error


def _costs(
    stages: Sequence[_Stage], would: Sequence[CostEstimate], n: int
) -> tuple[list[float], str]:
    """Return what an item costs at each stage at most, and in what that is counted."""
    if any(stage.price is not None for stage in stages):
        return [stage.price or 0.0 for stage in stages], _TYPED
    if all(each.cost is not None for each in would) and any(each.cost for each in would):
        return [(each.cost or 0.0) / n for each in would], _PRICED
    return [each.calls / n for each in would], _CALLED


def _scored(
    out: Output,
    server: Connection,
    stage: _Stage,
    cost: float,
    contexts: Sequence[Line],
    groups: Sequence[QueryGroup],
    asking: Asking | None,
    timeout: float,
) -> tuple[ScoredStage, float]:
    """Return the scores of a stage, None where it has no verdict, and what it cost."""
    with _named(stage), progress_bar(f"judging by {stage.name}", len(contexts)) as progress:
        verdicts = server.client.judge(
            groups, stage.judge, asking=asking, timeout=timeout, progress=progress
        )
    refuse_missing(verdicts)
    if verdicts.usage is not None:
        out.note(f"{stage.name}: {describe_usage(verdicts.usage)}")
    of_each = of_lines(contexts, verdicts)
    scores = [
        score if status == Status.OK else None
        for score, status in zip(of_each.score, of_each.status, strict=True)
    ]
    missing = sum(score is None for score in scores)
    if missing == len(scores):
        said = next(iter(of_each.errors.values()), None)
        why = "" if said is None else f": {said.message}"
        raise Problem(f"--stage {stage.name}: has no verdict on any line{why}")
    if missing:
        out.warn(f"--stage {stage.name}: has no verdict on {missing} of {len(scores)} lines")
    ends = list(accumulate(len(line.contexts) for line in contexts))
    flagged = [
        any(verdicts.flags[end - len(line.contexts) : end])
        for line, end in zip(contexts, ends, strict=True)
    ]
    spent = 0.0 if verdicts.usage is None else verdicts.usage.cost or 0.0
    return ScoredStage(verdicts.judge, scores, cost, flagged), spent


def _labelled(lines: Sequence[LabelledLine], stages: Sequence[ScoredStage]) -> StagedLabels:
    clusters = [cluster_of(line) or f"line {line.number}" for line in lines]
    lengths = [len(line.contexts[0].retrieved_text) for line in lines]
    return StagedLabels(stages, [bool(line.label) for line in lines], clusters, lengths)


def _report(
    out: Output,
    found: CascadeFrontier,
    stages: Sequence[_Stage],
    costs: Sequence[float],
    unit: str,
) -> None:
    names = [stage.name for stage in stages]
    out.warn(*found.warnings)
    tested = f"{found.n_certifying} labels test what {found.n_proposing} others made"
    lines = [f"{tested}, of {found.n_clusters} queries; {found.signature}"]
    if found.proposed is not None:
        point = found.points[found.proposed]
        lines.append(f"proposed: {describe_stages(point, names)}")
        lines.append(describe_guarantee(point.guarantee))
    elif found.uncertified is not None:
        point = found.points[found.uncertified]
        lines.append(f"uncertified, on these labels alone: {describe_stages(point, names)}")
    out.show(frontier_table(found, names, unit), "", "\n".join(lines))
    out.write_json({**frontier_document(found, names, costs, unit), "warnings": out.warnings})


def _keep(
    found: CascadeFrontier,
    stages: Sequence[_Stage],
    output: str | None,
    diagram: str | None,
    unit: str,
) -> None:
    """Write the diagram and the proposed cascade. Raises Problem where there is none to keep."""
    names = [stage.name for stage in stages]
    if diagram is not None:
        with open_output(diagram, "--diagram") as file:
            file.write(frontier_diagram(found, names, unit))
    if output is None:
        return
    if found.proposed is None:
        raise Problem(
            f"--output {output}: there is nothing to keep, since no cascade keeps what was asked "
            "for; allow more with --max-error, or ask for --max-share or --max-item-cost"
        )
    point = found.points[found.proposed]
    save_cascade(
        point.judge([stage.judge for stage in stages]),
        output,
        judges=describe_stages(point, names),
        cost=point.cost,
        cost_unit=unit,
        settled=point.settled,
        accuracy=point.accuracy,
        made=found.signature,
    )
