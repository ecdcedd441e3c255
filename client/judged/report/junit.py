"""A report as JUnit XML, which CI systems show: a test case for each gate, or for each metric."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from judged.report.content import Report, Run, verdict_of
from judged.report.summary import about, coverage_lines, number
from judged.report.texts import visible


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
