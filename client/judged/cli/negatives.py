"""What a command says of negative answers: a warning, and their part of the JSON document.

The gate on them is in `gates`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from judged import NegativeReport
from judged.cli.tables import of_all, plural, verdicts_document, word


def negative_warnings(report: NegativeReport | None) -> Iterator[str]:
    """Yield what the reader of a table should know about negative answers."""
    if report is None:
        return
    if report.matches:
        first = report.matches[0]
        found = plural(len(report.matches), "match", "matches")
        yield (
            f"{of_all(report.queries_hit, report.queries, 'query', 'queries')} with negative "
            f"answers retrieved one ({found}), for example {first.query_id!r} with result "
            f"{first.retrieved + 1} ({first.document_id!r})"
        )
    missing = report.counts.total - report.counts.ok
    if missing:
        verdicts = of_all(missing, report.counts.total, "verdict", "verdicts")
        yield f"{verdicts} on negative answers {word(missing, 'is', 'are')} missing"


def negatives_document(report: NegativeReport | None) -> dict[str, object]:
    """Return what the JSON document says of negatives: nothing when no query has any."""
    if report is None:
        return {}
    return {"negatives": {**asdict(report), "counts": verdicts_document(report.counts)}}
