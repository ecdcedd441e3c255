"""A report as Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from judged.report.content import Difference, MetricMean, Report, ReportedQuery, Run
from judged.report.failures import Kind, kinds_of, worst_first
from judged.report.summary import about, coverage_lines, decimal, number, p_value, signed, took
from judged.report.texts import markdown

_METRIC = re.compile(r"[\w@(),.=-]+")
_EXAMPLES = 5
_MOST_WARNINGS = 10


def to_markdown(report: Report) -> str:
    """Return the report: metrics and warnings first, then the worst queries of each kind."""
    run = report.run
    lines = [f"## {markdown(report.title)}", "", f"{markdown(run.name)}: {about(run)}", ""]
    if run.metrics:
        lines += [*means_table(run.metrics), ""]
    if report.differences:
        lines += [*differences_table(report.differences), ""]
    lines += [line for said in coverage_lines(run) for line in (said, "")]
    lines += [
        f"- {'passed' if fine else '**failed**'}: {markdown(said, 400)}"
        for fine, said in report.gates
    ]
    lines += warning_lines(run)
    lines += _failures(report)
    if run.signatures:
        lines += ["", "Signatures:", ""]
        lines += [
            f"- {markdown(role)}: {markdown(said, 400)}" for role, said in run.signatures.items()
        ]
    if run.usage is not None:
        lines += ["", ", ".join(f"{markdown(name)} {markdown(value)}" for name, value in took(run))]
    return "\n".join(lines).rstrip() + "\n"


def metric_name(name: str) -> str:
    """Return the name of a metric as code, where @10 calls nobody."""
    return f"`{name}`" if _METRIC.fullmatch(name) else markdown(name)


def means_table(metrics: Sequence[MetricMean]) -> list[str]:
    """Return the lines of a table of means with their intervals."""
    lines = ["| metric | mean | interval | queries |", "|---|---:|---:|---:|"]
    for metric in metrics:
        interval = "-" if metric.lower is None else f"{metric.lower:.4f} to {metric.upper:.4f}"
        lines.append(
            f"| {metric_name(metric.name)} | {number(metric.mean)} | {interval} | {metric.n} |"
        )
    return lines


def differences_table(made: Sequence[Difference]) -> list[str]:
    """Return the lines of a table of differences, with how sure each is."""
    lines = [
        "| metric | baseline | now | difference | interval | p | effect | won/lost/tied | it is |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for one in made:
        verdict = one.verdict if one.verdict.startswith("no") else f"**{one.verdict}**"
        lines.append(
            f"| {metric_name(one.metric)} | {number(one.baseline_mean)} | {number(one.run_mean)} "
            f"| {signed(one.difference)} | {signed(one.lower)} to {signed(one.upper)} "
            f"| {p_value(one.p)} | {decimal(one.effect)} "
            f"| {one.wins}/{one.losses}/{one.ties} | {verdict} |"
        )
    return lines


def warning_lines(run: Run) -> list[str]:
    """Return the warnings of a run as a list, of many the first."""
    lines = [f"- warning: {markdown(said, 400)}" for said in run.warnings[:_MOST_WARNINGS]]
    if (more := len(run.warnings) - _MOST_WARNINGS) > 0:
        lines.append(f"- and {more} more warnings")
    return lines


def _failures(report: Report) -> Iterator[str]:
    run = report.run
    kinds = {query.query_id: kinds_of(query) for query in run.queries}
    counts = Counter(kind for found in kinds.values() for kind in found)
    ordered = worst_first(run, report.baseline)
    for kind in Kind:
        if not counts[kind]:
            continue
        yield ""
        yield f"### {kind.title}: {counts[kind]} of {len(run.queries)}"
        yield ""
        worst = [query for query in ordered if kind in kinds[query.query_id]][:_EXAMPLES]
        for query in worst:
            yield f"- {_example(query, run.primary)}"
        if counts[kind] > len(worst):
            yield f"- and {counts[kind] - len(worst)} more"


def _example(query: ReportedQuery, metric: str) -> str:
    said = f"**{markdown(query.query_id)}** {markdown(query.query)}".rstrip()
    if query.failure:
        return f"{said}: {markdown(query.failure)}"
    return f"{said}: {metric_name(metric)} {number(query.values.get(metric))}" if metric else said
