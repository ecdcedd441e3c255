"""Reports of results: an HTML page in one file, Markdown for a comment, JUnit XML for CI.

They are made of the documents that docs/evaluator.md describes. HTML needs the extra `cli`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from judged.errors import FailedPrecondition
from judged.report.content import Report
from judged.report.documents import (
    NoResultDocument,
    read_comparison_warnings,
    read_differences,
    read_gates,
    read_run,
)
from judged.report.junit import to_junit
from judged.report.markdown import to_markdown

__all__ = ["NoResultDocument", "Report", "make_report", "to_html", "to_junit", "to_markdown"]


def make_report(
    document: object,
    baseline: object | None = None,
    comparisons: Sequence[Mapping[str, Any]] = (),
    *,
    title: str = "Evaluation report",
    names: tuple[str, str] = ("", ""),
) -> Report:
    """Return the report of a result document, beside that of a baseline where there is one.

    `comparisons` say how the two differ, as `ComparedRuns` has them, and their warnings become the
    run's; `names` are what the run and the baseline are called. Raises NoResultDocument.
    """
    run = read_run(document, names[0])
    return Report(
        run=replace(run, warnings=[*run.warnings, *read_comparison_warnings(comparisons)]),
        baseline=None if baseline is None else read_run(baseline, names[1]),
        differences=read_differences(comparisons),
        gates=read_gates(document),
        title=title,
    )


def to_html(report: Report, room: int | None = None) -> str:
    """Return one HTML page; `room` bounds the bytes of its packed queries.

    By default that is 450 bytes a query, and room for 1,000 queries at least. Raises
    FailedPrecondition where jinja2 is not installed.
    """
    try:
        from judged.report import html  # noqa: PLC0415 - jinja2 is in the extra `cli`
    except ModuleNotFoundError as error:
        if error.name not in {"jinja2", "markupsafe"}:
            raise
        raise FailedPrecondition(
            f"an HTML report needs {error.name}, which is not installed; run: pip install "
            "'judged[cli]'",
            code="FAILED_PRECONDITION",
        ) from None
    return html.to_html(report, room)
