"""The comment on a pull request: what moved against main, by how much, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

from judged.report.content import TEST, Report, verdict_of
from judged.report.failures import worst_first
from judged.report.markdown import differences_table, means_table, metric_name, warning_lines
from judged.report.summary import about, coverage_lines, number
from judged.report.texts import markdown
from judged.values import RunComparison

MARK = "<!-- judged ci -->"
"""By this the comment is found again, so that the next run replaces it."""
_NO_BASELINE = (
    "There is no baseline of main yet, so nothing was compared; `judged ci --save` on main makes "
    "one."
)
_EXAMPLES = 10


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
    for query_id, metric, before, now in found[:_EXAMPLES]:
        lines.append(
            f"- **{markdown(query_id)}** {markdown(texts.get(query_id, ''))}: "
            f"{metric_name(metric)} {number(before)} to {number(now)}"
        )
    if len(found) > _EXAMPLES:
        lines.append(f"- and {len(found) - _EXAMPLES} more")
    return [*lines, "", "</details>"]
