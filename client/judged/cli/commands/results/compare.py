"""`judged compare`: do runs differ, and by how much.

Runs are measured one by one, or come measured, as documents of `judged evaluate --json`, `metrics
--json`, `texts --json` and `score --json`; only values of queries, or items, are compared, so that
no run is too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from judged import (
    Client,
    CompareOptions,
    IntervalOptions,
    MetricOptions,
    TrecRankings,
)
from judged._views import plural
from judged.cli.commands.results.metrics import check_join, topic_warnings
from judged.cli.connection import connect
from judged.cli.field_path import Steps, write_path
from judged.cli.inputs.documents import MeasuredRun, common_metrics, measured_runs, run_names
from judged.cli.options import intervals
from judged.cli.options.gates import AllowOtherSignature
from judged.cli.options.server import ResultFlags
from judged.cli.output.comparison import comparison_table, moved_table, power_table
from judged.cli.output.gates import (
    Gate,
    Outcome,
    finish,
    gates_document,
    hold_drop,
    read_gate,
)
from judged.cli.output.reports import Report, read_report
from judged.cli.output.writer import Output, check_apart
from judged.cli.problems import Problem, explained
from judged.evaluation import FileError, TrecQrels, TrecRun
from judged.evaluation._steps.warnings import count_warnings
from judged.values import ComparedRuns, RunComparison

_DEFAULT_MOVED = 10


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="TREC runs (with --qrels) or JSON documents of evaluate, metrics, texts or score; "
            "the first is the baseline of the others, unless --baseline names one.",
            show_default=False,
        ),
    ],
    qrels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judgements: topic 0 document grade.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            *("--metric", "-m"),
            metavar="NAME",
            help="Metric as in ndcg@10; may be repeated. Of documents all by default.",
        ),
    ] = None,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="Topics that a run lacks count as 0 (trec_eval -c)."),
    ] = False,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The run that the others are held against."),
    ] = None,
    max_drop: Annotated[
        list[str] | None,
        typer.Option(
            "--max-drop",
            metavar="METRIC=X",
            help="Gate: exit with 1 when a run is more than X below the baseline on the queries "
            "that they share; may be repeated.",
        ),
    ] = None,
    moved: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=1000, help="Show the N queries that moved most."),
    ] = 0,
    difference: Annotated[
        float | None,
        typer.Option(metavar="X", help="Tell the power to see a true difference of X."),
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(metavar="C", help="Confidence of intervals; 0.95 by default.")
    ] = None,
    permutations: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, max=2**32 - 1, help="Random sign flips; 100000 by default."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, max=intervals.LARGEST_SEED, help="Seed of all that is drawn; 0."
        ),
    ] = None,
    allow_other_signature: AllowOtherSignature = False,
    *,
    shared: ResultFlags,
) -> None:
    """Test whether runs on the same queries differ."""
    out = shared.output()
    numbered = {f"RUN {number}": run for number, run in enumerate(runs, 1)}
    check_apart({**numbered, "--qrels": qrels, "--baseline": baseline}, json=shared.json_to)
    if baseline is not None:
        runs = [baseline, *(run for run in runs if run != baseline)]
    if len(runs) < 2:
        raise Problem(
            "a comparison needs at least two runs; name the baseline first, or as --baseline FILE"
        )
    names = run_names(runs)
    asked = CompareOptions(permutations, seed, max(moved, _DEFAULT_MOVED), difference)
    interval = None  # the server's default
    if confidence is not None or seed is not None:
        interval = IntervalOptions.of(confidence=confidence, seed=seed)
    with connect(shared) as server:
        metrics = list(metric or ())
        if qrels is None:
            reports = [_read(path) for path in runs]
            metrics = [reports[0].name_of(name) for name in metrics] or common_metrics(reports)
            signatures = {name: known.signature for name, known in reports[0].metrics.items()}
            measured = measured_runs(out, names, reports, metrics, allow=allow_other_signature)
        elif not metrics:
            raise Problem("name at least one --metric, as in ndcg@10")
        else:
            with out.told_misspellings():
                judged = TrecQrels.from_file(qrels)
            measured, signatures = _from_trec(
                out, server.client, metrics, judged, list(zip(names, runs, strict=True)), complete
            )
            metrics = list(signatures)
        gates = [read_gate(text, "--max-drop", metrics, signatures) for text in max_drop or ()]
        with explained(metrics, lambda path: _place(path, measured)):
            found = server.client.compare_runs(
                metrics,
                {run.name: run.values for run in measured},
                MetricOptions(interval=interval),
                asked,
            )
    drops = [
        _drop(gate, found.between(gate.metric, run.name), measured[0], run)
        for gate in gates
        for run in measured[1:]
    ]
    _report(out, found, measured, drops, moved=moved, difference=difference)


def _drop(gate: Gate, made: RunComparison, baseline: MeasuredRun, run: MeasuredRun) -> Outcome:
    """Hold a run's fall on the shared queries against its gate, at worst where some are missing."""
    before, now = baseline.means.get(gate.metric), run.means.get(gate.metric)
    highest = None if before is None else before.upper_bound
    lowest = None if now is None else now.lower_bound
    worst = None
    if before is not None and now is not None and (highest is not None or lowest is not None):
        top = before.mean if highest is None else highest
        bottom = now.mean if lowest is None else lowest
        worst = None if top is None or bottom is None else top - bottom
    name = f"{gate.metric} of {made.run}"
    return hold_drop(gate, name, made.baseline_mean, made.run_mean, worst)


def _read(path: Path) -> Report:
    try:
        return read_report(path)
    except FileError as error:
        raise Problem(f"{error}; for TREC runs name their judgements with --qrels") from None


def _from_trec(
    out: Output,
    client: Client,
    metrics: Sequence[str],
    judged: TrecQrels,
    files: Sequence[tuple[str, Path]],
    complete: bool,
) -> tuple[list[MeasuredRun], dict[str, str]]:
    """Return the runs measured, and the signature of each metric by its name."""
    measured, signatures = [], dict[str, str]()
    for name, path in files:
        retrieved = TrecRun.from_file(path)
        try:
            check_join(judged, retrieved, complete=complete)
        except Problem as problem:
            raise Problem(f"{path}: {problem}") from None
        with explained(metrics):
            table = client.compute_metrics(
                metrics,
                TrecRankings(judged.grades, retrieved.scores),
                MetricOptions(complete=complete, per_query=True),
            )
        counts = replace(table.counts, duplicates=table.counts.duplicates + retrieved.duplicates)
        told = (*retrieved.warnings, *topic_warnings(counts, judged, retrieved), *table.warnings)
        told = (*told, *count_warnings(counts))
        out.warn(*(f"{name}: {warning}" for warning in told))
        measured.append(MeasuredRun(name, str(path), table.per_query_values()))
        signatures = {metric.name: metric.signature for metric in table}
    return measured, signatures


def _place(path: Steps, measured: Sequence[MeasuredRun]) -> str | None:
    """Return what the user knows a field of CompareRuns as."""
    flags = {
        "comparison.permutations": "--permutations",
        "comparison.seed": "--seed",
        "comparison.difference": "--difference",
        "comparison.max_moved": "--moved",
        "options.interval.confidence": "--confidence",
        "options.interval.seed": "--seed",
    }
    match path:
        case ("runs", int(place), *_) if place < len(measured):
            return measured[place].file
    return flags.get(write_path(path))


def _report(
    out: Output,
    found: ComparedRuns,
    measured: Sequence[MeasuredRun],
    drops: Sequence[Outcome],
    *,
    moved: int,
    difference: float | None,
) -> None:
    out.warn(*_warnings(found))
    baseline = measured[0].name
    tests = plural(len(found.comparisons), "sign-flip test", "sign-flip tests")
    out.show(
        comparison_table(found.comparisons),
        "",
        f"the baseline is {baseline}; p is that of {tests}"
        f"{', corrected by Holm' if len(found.comparisons) > 1 else ''}; {found.signature}",
        "detectable: the smallest true difference that so many queries show in 4 of 5 cases",
    )
    if difference is not None:
        out.show("", power_table(found.comparisons, difference))
    for made in found.comparisons if moved else ():
        if made.moved:
            out.show("", f"moved most by {made.metric}:", moved_table(made, moved))
    out.write_json({**_document(found, measured, out.warnings), **gates_document(drops)})
    finish(out, drops)


def _warnings(found: ComparedRuns) -> list[str]:
    """Return the warnings of all comparisons, each once, with the run that it is about."""
    warnings: dict[str, None] = {}
    for made in found.comparisons:
        interval = made.difference.interval
        for warning in made.warnings:
            subject = made.run if "left out" in warning else f"{made.run}, {made.metric}"
            warnings[f"{subject}: {warning}"] = None
        # An interval without width is what the comparison's own warning is about already.
        for warning in interval.warnings if interval is not None and not made.warnings else ():
            warnings[f"{made.run}, interval: {warning}"] = None
    return list(warnings)


def _document(
    found: ComparedRuns, measured: Sequence[MeasuredRun], warnings: Sequence[str]
) -> dict[str, Any]:
    return {
        "baseline": measured[0].name,
        "runs": {
            run.name: {
                "file": run.file,
                "metrics": {
                    metric.name: {"mean": metric.mean, "n": metric.n}
                    for metric in found.tables[run.name].metrics
                },
            }
            for run in measured
        },
        "comparisons": [asdict(made) for made in found.comparisons],
        "signature": found.signature,
        "warnings": list(warnings),
    }
