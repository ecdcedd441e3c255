"""A report as Markdown, the comment on a pull request, and JUnit XML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from judged.report.content import (
    KINDS,
    TEST,
    Report,
    ReportedQuery,
    Run,
    about,
    coverage_lines,
    decimal,
    ends,
    kinds_of,
    markdown,
    number,
    p_value,
    signed,
    signed_ends,
    took,
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
    for kind, (title, _) in KINDS.items():
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
    said = f"**{markdown(query.query_id)}** {markdown(query.query)}".rstrip()
    if query.failure:
        return f"{said}: {markdown(query.failure)}"
    return f"{said}: {metric_name(metric)} {number(query.values.get(metric))}" if metric else said


MARK = "<!-- judged ci -->"
"""By this the comment is found again, so that the next run replaces it."""
_NO_BASELINE = (
    "There is no baseline of main yet, so nothing was compared; `judged ci --save` on main makes "
    "one."
)
_MOST_LOST = 10


@dataclass(frozen=True, slots=True)
class BaselineAge:
    """Which commit of main or which file a baseline is, and its age; `stale` says it is too old.

    `behind` is how many commits main has since, None where that is not known.
    """

    commit: str | None
    days: float
    behind: int | None
    stale: bool
    file: str | None = None

    def __str__(self) -> str:
        days = "less than a day" if self.days < 1 else f"{self.days:.0f} days"
        days = "1 day" if 1 <= self.days < 1.5 else days
        of = (
            f"the file {self.file}" if self.commit is None else f"commit {self.commit[:10]} of main"
        )
        said = f"Baseline: {of}, {days} old"
        if self.behind:
            said += f", {self.behind} {'commit' if self.behind == 1 else 'commits'} behind main"
        return said


def worse(report: Report) -> list[RunComparison]:
    """Return the metrics that are worse than in the baseline, as the corrected tests say."""
    return [made for made in report.differences if verdict_of(made) == "worse"]


def lost(report: Report) -> list[tuple[str, str, float, float]]:
    """Return the queries that lost most by the metrics that are worse: id, metric, before, now."""
    if report.baseline is None:
        return []
    found = []
    for made in worse(report):
        for query in report.run.queries:
            before = report.baseline.by_id.get(query.query_id)
            now = query.values.get(made.metric)
            was = None if before is None else before.values.get(made.metric)
            if now is not None and was is not None and now < was:
                found.append((query.query_id, made.metric, was, now))
    return sorted(found, key=lambda one: (one[3] - one[2], one[0], one[1]))


def to_comment(report: Report, age: BaselineAge | None) -> str:
    """Return the comment as Markdown, its first line a mark to find it by."""
    run = report.run
    lines = [MARK, f"### {headline(report)}", ""]
    if age is None:
        lines += [_NO_BASELINE, "", *means_table(run.metrics), ""]
    else:
        lines += [*differences_table(report.differences), "", _how_sure(report), ""]
        lines += [f"{age}{'; **stale**: run the workflow on main' if age.stale else ''}.", ""]
    lines += [line for said in coverage_lines(run) for line in (said, "")]
    lines += warning_lines(run)
    lines += _lost(report)
    lines += ["", f"{about(run)}; judge {markdown(run.signature, 400)}"]
    return "\n".join(lines).rstrip() + "\n"


def headline(report: Report) -> str:
    """Return the outcome in a line."""
    total = len(report.differences)
    if report.baseline is None:
        return "Retrieval: no baseline yet"
    if not total:
        return "Retrieval: nothing to compare"
    verdicts = [verdict_of(made) for made in report.differences]
    said = [f"{n} {name}" for name in ("worse", "better") if (n := verdicts.count(name))]
    metrics = f"of {total} {'metric' if total == 1 else 'metrics'}"
    if not said:
        return f"Retrieval: no clear difference in {total} {'metric' if total == 1 else 'metrics'}"
    return f"Retrieval: {', '.join(said)} {metrics}"


def _how_sure(report: Report) -> str:
    if not report.differences:
        return "The two results have no query with a value in common."
    first = report.differences[0]
    interval = first.difference.interval
    alpha = 0.05 if interval is None else 1 - interval.confidence
    return (
        f"Over the {first.n} queries that both have. p is that of a {TEST} for all metrics "
        f"together: of pull requests that change nothing, at most {alpha:.4g} are "
        "called different by any metric."
    )


def _lost(report: Report) -> list[str]:
    found = lost(report)
    if not found:
        return []
    texts = {query.query_id: query.query for query in worst_first(report.run, report.baseline)}
    lines = ["", "<details><summary>Queries that lost most</summary>", ""]
    for query_id, metric, before, now in found[:_MOST_LOST]:
        lines.append(
            f"- **{markdown(query_id)}** {markdown(texts.get(query_id, ''))}: "
            f"{metric_name(metric)} {number(before)} to {number(now)}"
        )
    if len(found) > _MOST_LOST:
        lines.append(f"- and {len(found) - _MOST_LOST} more")
    return [*lines, "", "</details>"]


def to_junit(report: Report) -> str:
    """Return the XML. A gate that was not passed is a failure, a metric without a mean too.

    Where the document has gates they are the cases, else each metric is one. Where there is a
    baseline each difference is a case, which fails where the run is worse.
    """
    cases = [_case("gate", said, None if passed else said) for passed, said in report.gates]
    for made in report.differences:
        verdict, p = verdict_of(made), made.permutation.p_holm
        means = f"{made.baseline_mean:.4f} to {made.run_mean:.4f}"
        said = f"{made.metric} {means}, p {p:.4f}: {verdict}"
        name = f"{made.metric} beside the baseline"
        cases.append(_case("difference", name, said if verdict == "worse" else None, said))
    if not cases:
        for metric in report.run.metrics:
            said = f"{metric.name} {number(metric.mean)} over {metric.n} queries"
            wrong = None if metric.mean is not None else f"{metric.name} has no mean"
            cases.append(_case("metric", metric.name, wrong, said))
    failed = sum("<failure" in case for case in cases)
    body = "\n".join([_properties(report.run), *cases, _remarks(report.run)])
    suite = f'name={_attribute(report.title)} tests="{len(cases)}" failures="{failed}" errors="0"'
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        f'<testsuites tests="{len(cases)}" failures="{failed}" errors="0">\n'
        f"<testsuite {suite}>\n{body}\n</testsuite>\n</testsuites>\n"
    )


def _properties(run: Run) -> str:
    properties = {f"judged.{metric.name}": number(metric.mean) for metric in run.metrics}
    properties["judged.signature.judge"] = run.signature
    lines = [
        f"<property name={_attribute(name)} value={_attribute(value)}/>"
        for name, value in properties.items()
    ]
    return "\n".join(["<properties>", *lines, "</properties>"])


def _case(kind: str, name: str, failure: str | None, said: str = "") -> str:
    inner = "" if failure is None else f"<failure message={_attribute(failure)}/>"
    if said:
        inner += f"<system-out>{escape(visible(said))}</system-out>"
    return (
        f'<testcase classname="judged.{kind}" name={_attribute(name)} time="0">{inner}</testcase>'
    )


def _remarks(run: Run) -> str:
    lines = [about(run), *coverage_lines(run), *(f"warning: {said}" for said in run.warnings)]
    return f"<system-out>{escape(visible(chr(10).join(lines)))}</system-out>"


def _attribute(text: str) -> str:
    return quoteattr(visible(text))
