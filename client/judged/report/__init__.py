"""Reports of results: an HTML page in one file, Markdown for a comment, JUnit XML for CI.

They show the documents that docs/evaluator.md describes. HTML needs the extra `cli`.
"""

from __future__ import annotations

from judged.errors import FailedPrecondition
from judged.report.content import NoResultDocument, Report, make_report
from judged.report.markdown import to_junit, to_markdown

__all__ = ["NoResultDocument", "Report", "make_report", "to_html", "to_junit", "to_markdown"]


def to_html(report: Report) -> str:
    """Return one HTML page. Raises FailedPrecondition if jinja2 is not installed."""
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
    return html.to_html(report)
