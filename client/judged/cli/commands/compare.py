"""`judged compare`: do runs differ, and by how much.

Runs are measured one by one, or come measured, as documents of `judged evaluate --json` and `judged
metrics --json`; only values of queries are compared, so that no run is too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from judged import (
    Client,
    CompareOptions,
    IntervalOptions,
    MetricOptions,
    MetricTable,
    PerQueryValues,
    TrecRankings,
)
from judged.cli.commands.metrics import check_join, topic_warnings
from judged.cli.connection import connect
from judged.cli.options import common, intervals
from judged.cli.options.gates import AllowOtherSignature
from judged.cli.output.comparison import comparison_table, moved_table, power_table, tukey_table
from judged.cli.output.reports import Report, read_report
from judged.cli.output.tables import count_warnings, plural
from judged.cli.output.writer import Output, check_apart
from judged.cli.problems import Problem, explained
from judged.evaluation import FileError, TrecQrels, TrecRun
from judged.types import ComparedRuns

_DEFAULT_MOVED = 10


@dataclass(frozen=True, slots=True)
class _Run:
    """One run as the command compares it."""

    name: str
    file: str
    values: PerQueryValues


def command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="TREC runs (with --qrels) or JSON documents of evaluate or metrics; the first "
            "is the baseline of the others.",
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
    target: common.Target = None,
    json_to: common.Json = None,
    strict: common.Strict = False,
) -> None:
    """Test whether runs on the same queries differ."""
    out = Output(json_to, strict=strict)
    numbered = {f"RUN {number}": run for number, run in enumerate(runs, 1)}
    check_apart({**numbered, "--qrels": qrels}, json=json_to)
    if len(runs) < 2:
        raise Problem("a comparison needs at least two runs; name the baseline first")
    names = run_names(runs)
    asked = CompareOptions(permutations, seed, max(moved, _DEFAULT_MOVED), difference)
    interval = None  # the server's default
    if confidence is not None or seed is not None:
        interval = IntervalOptions(confidence=confidence, seed=seed)
    with connect(target) as server:
        metrics = list(metric or ())
        if qrels is None:
            reports = [_read(path) for path in runs]
            metrics = metrics or _common_metrics(reports)
            measured = _from_reports(out, names, reports, metrics, allow=allow_other_signature)
        elif not metrics:
            raise Problem("name at least one --metric, as in ndcg@10")
        else:
            judged = TrecQrels.from_file(qrels)
            measured = _from_trec(
                out, server.client, metrics, judged, list(zip(names, runs, strict=True)), complete
            )
        with explained(metrics, lambda field: _place(field, measured)):
            found = server.client.compare_runs(
                metrics,
                {run.name: run.values for run in measured},
                MetricOptions(interval=interval),
                asked,
            )
    _report(out, found, measured, moved=moved, difference=difference)


def run_names(paths: Sequence[Path]) -> list[str]:
    """Return a name for each file: its stem, or the path where stems repeat, each once."""
    stems = [Path(path.name.removesuffix(".gz")).stem for path in paths]
    names: list[str] = []
    for path, stem in zip(paths, stems, strict=True):
        wanted = stem if stems.count(stem) == 1 else str(path)
        name, again = wanted, 2
        while name in names:
            name, again = f"{wanted}#{again}", again + 1
        names.append(name)
    return names


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
) -> list[_Run]:
    measured = []
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
        for warning in [*topic_warnings(counts), *count_warnings(counts)]:
            out.warn(f"{name}: {warning}")
        measured.append(_Run(name, str(path), _values_of(table)))
    return measured


def _values_of(table: MetricTable) -> PerQueryValues:
    return PerQueryValues(table.query_ids, [metric.per_query for metric in table.metrics])


def _common_metrics(reports: Sequence[Report]) -> list[str]:
    """Return the metrics that all documents have, in the order of the first."""
    common = [
        name for name in reports[0].metrics if all(name in other.metrics for other in reports[1:])
    ]
    if not common:
        raise Problem(
            "the documents have no metric in common: "
            + "; ".join(f"{report.name} has {', '.join(report.metrics)}" for report in reports)
        )
    return common


def _from_reports(
    out: Output,
    names: Sequence[str],
    reports: Sequence[Report],
    metrics: Sequence[str],
    *,
    allow: bool,
) -> list[_Run]:
    measured = []
    for name, report in zip(names, reports, strict=True):
        if not report.per_query:
            raise Problem(
                f"{report.name}: has no values of queries to compare; measure with "
                "MetricOptions(per_query=True), as judged evaluate --json does"
            )
        columns = [report.column(metric) for metric in metrics]
        for metric in metrics:
            first, own = reports[0].metric(metric).signature, report.metric(metric).signature
            _check_signature(out, report, metric, first, own, allow=allow)
        first_judge = reports[0].signature or "none"
        _check_signature(
            out, report, "the judge", first_judge, report.signature or "none", allow=allow
        )
        measured.append(_Run(name, report.name, PerQueryValues(list(report.per_query), columns)))
    return measured


def _check_signature(
    out: Output, report: Report, what: str, first: str, own: str, *, allow: bool
) -> None:
    if first == own:
        return
    difference = f"{report.name}: {what} is {own} there, but {first} in the baseline"
    if not allow:
        raise Problem(f"{difference}; measure both in one way, or pass --allow-other-signature")
    out.warn(difference)


def _place(field: str, measured: Sequence[_Run]) -> str | None:
    """Return what the user knows a field of CompareRuns as."""
    flags = {
        "comparison.permutations": "--permutations",
        "comparison.seed": "--seed",
        "comparison.difference": "--difference",
        "comparison.max_moved": "--moved",
        "options.interval.confidence": "--confidence",
        "options.interval.seed": "--seed",
    }
    if field in flags:
        return flags[field]
    for i, run in enumerate(measured):
        if field.startswith(f"runs[{i}]"):
            return run.file
    return None


def _report(
    out: Output,
    found: ComparedRuns,
    measured: Sequence[_Run],
    *,
    moved: int,
    difference: float | None,
) -> None:
    for warning in _warnings(found):
        out.warn(warning)
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
    if found.tukey:
        out.show("", "every pair of runs, by Tukey's test:", tukey_table(found))
    for made in found.comparisons if moved else ():
        if made.moved:
            out.show("", f"moved most by {made.metric}:", moved_table(made, moved))
    out.write_json(_document(found, measured, out.warnings))
    out.finish()


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
    found: ComparedRuns, measured: Sequence[_Run], warnings: Sequence[str]
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
        "tukey": [asdict(pair) for pair in found.tukey],
        "signature": found.signature,
        "warnings": list(warnings),
    }
