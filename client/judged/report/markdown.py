"""Renders a report as Markdown, as the comment on a pull request, and as JUnit XML."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from judged._views import plural
from judged.report.content import (
    KINDS,
    TEST,
    Report,
    ReportedQuery,
    Run,
    about,
    difference_cells,
    ends,
    kinds_of,
    markdown,
    number,
    verdict_of,
    visible,
    worst_first,
)
from judged.values import MetricResult, RunComparison

_METRIC = re.compile(r"[\w@(),.=-]+")
_EXAMPLES = 5
_MOST_WARNINGS = 10


def to_markdown(report: Report) -> str:
    """Return the report: metrics and warnings first, then the worst queries of each kind."""
    title = f"## {markdown(report.title)}: {markdown(report.run.name)}"
    lines = [title, "", *_numbers(report), *_failures(report)]
    return "\n".join([*lines, "", _judge(report.run)]) + "\n"


def _numbers(report: Report) -> Iterator[str]:
    """Yield means and differences, gates and warnings."""
    run = report.run
    yield from (about(run), "")
    if run.metrics:
        yield from (*means_table(run.metrics), "")
    if report.differences:
        yield from (*differences_table(report.differences), "", f"p is that of a {TEST}.", "")
    for passed, message in report.gates:
        yield f"- {'passed' if passed else '**failed**'}: {markdown(message, 400)}"
    for warning in run.warnings[:_MOST_WARNINGS]:
        yield f"- warning: {markdown(warning, 400)}"
    if (more := len(run.warnings) - _MOST_WARNINGS) > 0:
        yield f"- and {plural(more, 'more warning')}"


def _judge(run: Run) -> str:
    return f"Judge: {markdown(run.signature, 400)}"


def metric_name(name: str) -> str:
    """Return the name of a metric as code, in which @10 notifies no user."""
    return f"`{name}`" if _METRIC.fullmatch(name) else markdown(name)


def means_table(metrics: Sequence[MetricResult]) -> list[str]:
    """Return the lines of a table of means with their intervals."""
    rows = [(metric_name(one.name), number(one.mean), ends(one.interval), one.n) for one in metrics]
    return _table("metric | mean | interval | queries", "|---|---:|---:|---:|", rows)


def differences_table(made: Sequence[RunComparison]) -> list[str]:
    """Return the lines of a table of differences, with intervals and p-values."""
    rows = []
    for one in made:
        verdict = verdict_of(one)
        shown = verdict if verdict.startswith("no") else f"**{verdict}**"
        rows.append([metric_name(one.metric), *difference_cells(one), shown])
    heads = "metric | baseline | now | difference | interval | p | won/lost/tied | it is"
    return _table(heads, f"|---{6 * '|---:'}|---|", rows)


def _table(heads: str, aligned: str, rows: Iterable[Sequence[object]]) -> list[str]:
    return [f"| {heads} |", aligned, *(f"| {' | '.join(map(str, row))} |" for row in rows)]


def _failures(report: Report) -> Iterator[str]:
    run = report.run
    kinds = {query.query_id: kinds_of(query) for query in run.queries}
    counts = Counter(kind for found in kinds.values() for kind in found)
    ordered = worst_first(run, report.baseline)
    for kind, title in KINDS.items():
        if not counts[kind]:
            continue
        yield ""
        yield f"### {title}: {counts[kind]} of {len(run.queries)}"
        yield ""
        worst = [query for query in ordered if kind in kinds[query.query_id]][:_EXAMPLES]
        for query in worst:
            yield f"- {_example(query, run.primary)}"
        if counts[kind] > len(worst):
            yield f"- and {counts[kind] - len(worst)} more"


def _example(query: ReportedQuery, metric: str) -> str:
    name = f"**{markdown(query.query_id)}** {markdown(query.query)}".rstrip()
    if query.failure:
        return f"{name}: {markdown(query.failure)}"
    return f"{name}: {metric_name(metric)} {number(query.values.get(metric))}" if metric else name


MARK = "<!-- judged ci -->"
"""Marks the comment, so that the next run finds and replaces it."""
_NO_BASELINE = (
    "There is no baseline of main yet, so nothing was compared; `judged ci --save` on main makes "
    "one."
)
_MOST_LOST = 10


@dataclass(frozen=True, slots=True)
class BaselineAge:
    """The commit of main, or the file, of a baseline, and its age."""

    commit: str | None
    days: float
    file: str | None = None

    def __str__(self) -> str:
        of = (
            f"the file {self.file}" if self.commit is None else f"commit {self.commit[:10]} of main"
        )
        return f"Baseline: {of}, {plural(round(self.days), 'day')} old"


def worse(report: Report) -> list[RunComparison]:
    """Return the metrics that are worse than the baseline by the corrected tests."""
    return [made for made in report.differences if verdict_of(made) == "worse"]


def to_comment(report: Report, age: BaselineAge | None) -> str:
    """Return the comment as Markdown; its first line is MARK."""
    lines = [MARK, f"### {headline(report)}", "", *_numbers(report), *_lost(report)]
    lines += ["", _NO_BASELINE if age is None else f"{age}.", "", _judge(report.run)]
    return "\n".join(lines) + "\n"


def headline(report: Report) -> str:
    """Return the outcome in a line."""
    if report.baseline is None:
        return "Retrieval: no baseline yet"
    found = Counter(map(verdict_of, report.differences))
    metrics = plural(len(report.differences), "metric")
    return f"Retrieval: {found['worse']} worse, {found['better']} better of {metrics}"


def _lost(report: Report) -> Iterator[str]:
    """Yield the queries that lost most on the metrics that are worse."""
    found = []
    before = {} if report.baseline is None else report.baseline.by_id
    for made in worse(report):
        for query in report.run.queries:
            was = before[query.query_id].values if query.query_id in before else {}
            drop = was.get(made.metric, 0.0) - query.values.get(made.metric, math.inf)
            if drop > 0:
                found.append((drop, query, made.metric))
    if not found:
        return
    found.sort(key=lambda each: (-each[0], each[1].query_id, each[2]))
    yield from ("", "<details><summary>Queries that lost most</summary>", "")
    for drop, query, metric in found[:_MOST_LOST]:
        yield f"- {_example(query, metric)}, {drop:.4f} less"
    yield from ("", "</details>")


def to_junit(report: Report) -> str:
    """Return the XML. Failed gates and metrics without a mean are failures.

    Each gate is a case, and each difference from a baseline, which fails if the run is worse. If
    there are neither, each metric is a case.
    """
    run, suite = report.run, ET.Element("testsuite", name=visible(report.title))
    for passed, text in report.gates:
        _add_case(suite, "gate", text, None if passed else text)
    for made in report.differences:
        verdict, p = verdict_of(made), made.permutation.p_holm
        means = f"{made.baseline_mean:.4f} to {made.run_mean:.4f}"
        text = f"{made.metric} {means}, p {p:.4f}: {verdict}"
        name = f"{made.metric} beside the baseline"
        _add_case(suite, "difference", name, text if verdict == "worse" else None, text)
    for metric in () if len(suite) else run.metrics:
        text = f"{metric.name} {number(metric.mean)} over {metric.n} queries"
        failure = None if metric.mean is not None else f"{metric.name} has no mean"
        _add_case(suite, "metric", metric.name, failure, text)
    failed = len(suite.findall("testcase/failure"))
    counts = {"tests": str(len(suite)), "failures": str(failed), "errors": "0"}
    suite.attrib.update(counts)
    lines = [about(run), f"judge {run.signature}", *(f"warning: {w}" for w in run.warnings)]
    ET.SubElement(suite, "system-out").text = visible("\n".join(lines))
    root = ET.Element("testsuites", counts)
    root.append(suite)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, "unicode")}\n'


def _add_case(suite: ET.Element, kind: str, name: str, failure: str | None, text: str = "") -> None:
    about_it = {"classname": f"judged.{kind}", "name": visible(name), "time": "0"}
    case = ET.SubElement(suite, "testcase", about_it)
    if failure is not None:
        ET.SubElement(case, "failure", message=visible(failure))
    if text:
        ET.SubElement(case, "system-out").text = visible(text)
