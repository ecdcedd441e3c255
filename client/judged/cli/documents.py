"""Reads and compares the JSON documents of `judged evaluate`, `metrics`, `texts` and `score`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from judged import MetricOptions, PerQueryValues
from judged._files import FileError, Record, read_bytes
from judged._views import of_all, plural
from judged.cli.frame import flag
from judged.cli.output import Output, Problem, of_metrics
from judged.cli.server import ResultCommand
from judged.report.content import read_metrics, read_values
from judged.values import ComparedRuns, MetricResult, ScoreCounts

Ways = Sequence[tuple[str, str]]
"""The signature of each metric, and of the judge."""


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a document. `signature` names the judge; None if there was no judge.

    For answers, the metrics are rubrics and the queries are items. `expected` has what each query
    expects, if the document tells it.
    """

    name: str
    metrics: Mapping[str, MetricResult]
    per_query: Mapping[str, Mapping[str, float]]
    signature: str | None
    expected: Mapping[str, set[str]] = field(default_factory=dict)

    def metric(self, name: str) -> MetricResult:
        """Return a metric by its name. Raises FileError."""
        if name not in self.metrics:
            raise FileError(self.name, None, f"has no {name}; make it with the same --metric")
        return self.metrics[name]

    def ways(self, metrics: Sequence[str]) -> Ways:
        """Return the signatures of metrics and of the judge. Raises FileError."""
        of_metrics = [(metric, self.metric(metric).signature) for metric in metrics]
        return [*of_metrics, ("the judge", self.signature or "none")]

    def values(self, metrics: Sequence[str]) -> PerQueryValues:
        """Return the values of the queries that have one by each of the metrics."""
        kept = {q: of for q, of in self.per_query.items() if all(name in of for name in metrics)}
        return PerQueryValues(list(kept), [[of[name] for of in kept.values()] for name in metrics])


def read_report(path: Path | str) -> Report:
    """Return the document of a file. Raises FileError."""
    return parse_report(read_bytes(path), str(path))


def parse_report(content: bytes, name: str) -> Report:
    """Return the document in `content`; messages call it `name`. Raises FileError."""
    root = Record.parse(content, name, None)
    if root.get("scores") is not None and root.get("rubrics") is not None:
        return _of_scores(root, name)
    if root.get("metrics") is None or root.get("per_query") is None:
        raise root.error(
            "is no document of judged evaluate --json, metrics --json, texts --json or score --json"
        )
    # These fields suffice here; EvaluationResult.from_json requires all of them.
    metrics = {metric.name: metric for metric in read_metrics(root)}
    expected = {
        query.text("query_id"): {*query.texts("expected"), *query.texts("relevant_document_ids")}
        for query in root.records("queries")
    }
    return Report(name, metrics, read_values(root), root.optional_text("signature"), expected)


def _of_scores(root: Record, name: str) -> Report:
    """Return the content of a document of `judged score`."""
    per_item: dict[str, dict[str, float]] = {}
    for record in root.records("scores"):
        of_item = per_item.setdefault(record.identifier("item_id"), {})
        score = record.optional_number("score")
        if score is not None:
            of_item[record.text("rubric")] = score
    rubrics, metrics = root.inner(root.get("rubrics"), "rubrics"), {}
    for rubric, content in rubrics.fields.items():
        entry = rubrics.inner(content, rubric)
        mean, signature = entry.optional_number("mean"), entry.optional_text("signature")
        counts = entry.value("counts", ScoreCounts)
        metrics[rubric] = scored_metric(rubric, mean, counts, signature or "")
    return Report(name, metrics, per_item, None)


def scored_metric(
    rubric: str, mean: float | None, counts: ScoreCounts, signature: str = ""
) -> MetricResult:
    """Return the mean of a rubric, with bounds if scores are missing."""
    lower = upper = None
    if missing := counts.error + counts.abstained:  # counted as 0, or as 1
        total, n = (mean or 0.0) * counts.ok, counts.ok + missing
        lower, upper = total / n, (total + missing) / n
    return MetricResult(rubric, mean, counts.ok, lower, upper, signature, ())


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run to compare: its values and means."""

    name: str
    file: str
    values: PerQueryValues
    means: Mapping[str, MetricResult]


def run_names(paths: Sequence[str]) -> list[str]:
    """Return a name for each file: its stem, or the paths where stems repeat.

    Raises Problem for a file that is named twice.
    """
    for path in paths:
        if paths.count(path) > 1:
            raise Problem(f"{path}: is named twice; name each run once")
    stems = [Path(path).stem for path in paths]
    return stems if len(set(stems)) == len(stems) else list(paths)


def common_metrics(out: Output, reports: Sequence[Report]) -> list[str]:
    """Return the metrics that all documents have, in the order of the first. Raises Problem."""
    names = dict.fromkeys(name for report in reports for name in report.metrics)
    common = [name for name in names if all(name in report.metrics for report in reports)]
    if not common:
        raise Problem("the documents have no metric in common; make all with the same --metric")
    if others := [name for name in names if name not in common]:
        out.warn(f"not compared, since not every document has it: {', '.join(others)}")
    return common


class ComparingCommand(ResultCommand):
    """A command that compares documents by the server's tests."""

    allow_other_signature: bool = flag(
        "Compare numbers that were made in another way; a warning in place of a refusal."
    )

    def compared(
        self, out: Output, names: Sequence[str], reports: Sequence[Report], options: MetricOptions
    ) -> ComparedRuns:
        """Return how documents differ from the first, by all shared metrics. Raises Problem."""
        metrics = common_metrics(out, reports)
        runs = self.measured(out, names, reports, metrics)
        with self.connect(of_metrics(metrics)) as (client, _):
            values = {run.name: run.values for run in runs}
            return client.compare_runs(metrics, values, options)

    def measured(
        self, out: Output, names: Sequence[str], reports: Sequence[Report], metrics: Sequence[str]
    ) -> list[MeasuredRun]:
        """Return the values of documents.

        Raises Problem for different signatures, unless those are allowed.
        """
        measured = []
        for name, report in zip(names, reports, strict=True):
            theirs, ours = report.ways(metrics), reports[0].ways(metrics)
            for (what, one), (_, other) in zip(theirs, ours, strict=True):
                if one == other:
                    continue
                difference = f"{report.name}: {what} is {one} there and {other} in the other"
                if not self.allow_other_signature:
                    step = "measure both in one way, or pass --allow-other-signature"
                    raise Problem(f"{difference}; {step}")
                out.warn(difference)
            known = reports[0].expected
            if changed := [q for q, of in report.expected.items() if known.get(q, of) != of]:
                some = of_all(len(changed), len(report.expected), "query", "queries")
                out.warn(
                    f"{some} expect something else in {name} than in {names[0]}, the first "
                    f"{changed[0]!r}; differences may come from the data sets"
                )
            values = report.values(metrics)
            if left_out := len(report.per_query) - len(values.query_ids):
                some = plural(left_out, "item")
                out.warn(f"{name}: {some} left out, without a value by each metric compared")
            if not values.query_ids:
                raise Problem(
                    f"{report.name}: has no values to compare; measure with "
                    "MetricOptions(per_query=True), as judged evaluate --json does"
                )
            means = {metric: report.metric(metric) for metric in metrics}
            measured.append(MeasuredRun(name, report.name, values, means))
        return measured
