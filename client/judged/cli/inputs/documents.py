"""Result documents as runs that can be compared: what they are called, and what they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judged import MetricOptions, PerQueryValues
from judged._views import of_all
from judged.cli.connection import Access, connect
from judged.cli.output.reports import Report, ReportedMetric
from judged.cli.output.writer import Output
from judged.cli.problems import Problem, explained
from judged.values import ComparedRuns


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run as the command compares it; `means` are those of its document, if it is one."""

    name: str
    file: str
    values: PerQueryValues
    means: Mapping[str, ReportedMetric] = field(default_factory=dict)


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


def common_metrics(reports: Sequence[Report]) -> list[str]:
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


def measured_runs(
    out: Output,
    names: Sequence[str],
    reports: Sequence[Report],
    metrics: Sequence[str],
    *,
    allow: bool,
) -> list[MeasuredRun]:
    """Return the values of documents, all measured and judged in one way unless `allow`ed.

    Raises Problem.
    """
    measured = []
    for name, whole in zip(names, reports, strict=True):
        report = whole.having(metrics)
        lacking = len(whole.per_query) - len(report.per_query)
        if lacking and not report.per_query:
            raise Problem(f"{report.name}: no item has a score by {', '.join(metrics)}")
        if lacking:
            some = of_all(lacking, len(whole.per_query), "item", "items")
            out.warn(f"{name}: {some} left out, without a score by {' and '.join(metrics)}")
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
        measured.append(
            MeasuredRun(
                name,
                report.name,
                PerQueryValues(list(report.per_query), columns),
                {metric: report.metric(metric) for metric in metrics},
            )
        )
    return measured


def compare_documents(
    out: Output,
    access: Access,
    names: Sequence[str],
    reports: Sequence[Report],
    options: MetricOptions = MetricOptions(),
    *,
    allow: bool,
) -> ComparedRuns:
    """Return how documents differ from the first by all metrics that they share.

    `allow` is that of `measured_runs`. Raises Problem.
    """
    metrics = common_metrics(reports)
    runs = measured_runs(out, names, reports, metrics, allow=allow)
    with connect(access) as server, explained(metrics):
        return server.client.compare_runs(metrics, {run.name: run.values for run in runs}, options)


def _check_signature(
    out: Output, report: Report, what: str, first: str, own: str, *, allow: bool
) -> None:
    if first == own:
        return
    difference = f"{report.name}: {what} is {own} there, but {first} in the baseline"
    if not allow:
        raise Problem(f"{difference}; measure both in one way, or pass --allow-other-signature")
    out.warn(difference)
