"""A report as Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from judged.report.content import Report, ReportedQuery, Run, verdict_of
from judged.report.failures import Kind, kinds_of, worst_first
from judged.report.summary import (
    about,
    coverage_lines,
    decimal,
    ends,
    number,
    p_value,
    signed,
    signed_ends,
    took,
)
from judged.report.texts import markdown
from judged.values import MetricResult, RunComparison

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
    lines += ["", "Signatures:", "", f"- judge: {markdown(run.signature, 400)}"]
    if told := took(run):
        lines += ["", ", ".join(f"{markdown(name)} {markdown(value)}" for name, value in told)]
    return "\n".join(lines).rstrip() + "\n"


def metric_name(name: str) -> str:
    """Return the name of a metric as code, where @10 calls nobody."""
    return f"`{name}`" if _METRIC.fullmatch(name) else markdown(name)


def means_table(metrics: Sequence[MetricResult]) -> list[str]:
    """Return the lines of a table of means with their intervals."""
    rows = [(metric_name(one.name), number(one.mean), ends(one.interval), one.n) for one in metrics]
    return _table("metric | mean | interval | queries", "|---|---:|---:|---:|", rows)


def differences_table(made: Sequence[RunComparison]) -> list[str]:
    """Return the lines of a table of differences, with how sure each is."""
    rows = []
    for one in made:
        verdict = verdict_of(one)
        rows.append(
            (
                metric_name(one.metric),
                number(one.baseline_mean),
                number(one.run_mean),
                signed(one.difference.value),
                signed_ends(one.difference.interval),
                p_value(one.permutation.p_holm),
                decimal(one.effect_size),
                f"{one.wins}/{one.losses}/{one.ties}",
                verdict if verdict.startswith("no") else f"**{verdict}**",
            )
        )
    heads = "metric | baseline | now | difference | interval | p | effect | won/lost/tied | it is"
    return _table(heads, f"|---{7 * '|---:'}|---|", rows)


def _table(heads: str, aligned: str, rows: Iterable[Sequence[object]]) -> list[str]:
    return [f"| {heads} |", aligned, *(f"| {' | '.join(map(str, row))} |" for row in rows)]


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
