"""The queries of a report as the page's script reads them: a table of strings, and columns.

Texts are by far the largest part, so a report has room for so many bytes, and the worst queries
fill it first; of the others the page has values, ids and kinds.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from judged.report.content import Report, ReportedQuery, Run
from judged.report.failures import kinds_of, worst_first
from judged.report.texts import cut, visible

BYTES_A_QUERY = 450
"""1,000 queries make a page of 500 kB, 10,000 one of 5 MB."""
SMALLEST_PAGE = 1000
"""Fewer queries have as much room as this many."""
LONGEST_TEXT = 4000
LONGEST_QUERY = 300
MOST_RESULTS = 20
_LEVEL = 6
"""9 takes five times as long and saves 2 %."""
_STATUSES = ("OK", "ERROR", "ABSTAINED", "NOT_ASSESSABLE")


@dataclass(frozen=True, slots=True)
class Packed:
    """The data of a page in base64 of zlib, and of how many queries the texts are in it."""

    data: str
    with_texts: int
    queries: int


@dataclass(slots=True)
class _Strings:
    """Every text once, in the order in which they came; columns have its number."""

    texts: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        number = self.numbers.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(visible(text))
        return number


def pack(report: Report, room: int | None = None) -> Packed:
    """Return the queries of a report, the worst first, in at most `room` bytes where texts fit."""
    ordered = worst_first(report.run, report.baseline)
    if room is None:
        room = BYTES_A_QUERY * max(SMALLEST_PAGE, len(ordered))
    strings = _Strings()
    metrics = [metric.name for metric in report.run.metrics]
    content: dict[str, Any] = {
        "metrics": [visible(name) for name in metrics],
        "runs": [visible(run.name) for run in _runs(report)],
        "ids": [strings.number(query.query_id) for query in ordered],
        "queries": [strings.number(cut(query.query, LONGEST_QUERY)) for query in ordered],
        "values": [_values(ordered, name) for name in metrics],
        "before": _before(report.baseline, ordered, metrics),
        "first": [query.first_hit for query in ordered],
        "kinds": [int(kinds_of(query)) for query in ordered],
    }
    details: list[object] = []
    # What the columns take, and then each query as if the stream ended with it: an upper bound.
    packer = zlib.compressobj(_LEVEL)
    columns = json.dumps([content, strings.texts], ensure_ascii=False)
    taken = len(packer.compress(columns.encode()) + packer.flush(zlib.Z_SYNC_FLUSH))
    for query in ordered:
        known = len(strings.texts)
        detail = [_detail(of, strings) for of in _of_runs(report, query)]
        more = json.dumps([detail, strings.texts[known:]], ensure_ascii=False).encode()
        taken += len(packer.compress(more) + packer.flush(zlib.Z_SYNC_FLUSH))
        if taken * 4 / 3 > room:
            del strings.texts[known:]
            break
        details.append(detail)
    content["details"] = details
    content["strings"] = strings.texts
    packed = zlib.compress(
        json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode(), _LEVEL
    )
    return Packed(base64.b64encode(packed).decode(), len(details), len(ordered))


def _runs(report: Report) -> list[Run]:
    return [report.run] if report.baseline is None else [report.baseline, report.run]


def _of_runs(report: Report, query: ReportedQuery) -> list[ReportedQuery | None]:
    if report.baseline is None:
        return [query]
    return [report.baseline.by_id.get(query.query_id), query]


def _values(queries: Sequence[ReportedQuery], metric: str) -> list[float | None]:
    return [_short(query.values.get(metric)) for query in queries]


def _before(
    baseline: Run | None, queries: Sequence[ReportedQuery], metrics: Sequence[str]
) -> list[list[float | None]] | None:
    if baseline is None:
        return None
    others = [baseline.by_id.get(query.query_id) for query in queries]
    return [
        [None if other is None else _short(other.values.get(name)) for other in others]
        for name in metrics
    ]


def _detail(query: ReportedQuery | None, strings: _Strings) -> list[object] | None:
    """Return what the page shows of a query when it is opened; None where nothing is known."""
    if query is None or not (query.expected or query.results or query.failure):
        return None
    return [
        [strings.number(cut(text, LONGEST_TEXT)) for text in query.expected],
        [
            [
                strings.number(result.document_id),
                None if result.text is None else strings.number(cut(result.text, LONGEST_TEXT)),
                None if result.relevant is None else int(result.relevant),
                _short(result.score),
                _STATUSES.index(result.status) if result.status in _STATUSES else 0,
                _short(result.agreement),
                strings.number(cut(result.error, LONGEST_QUERY)) if result.error else -1,
                list(result.matches),
                int(result.duplicate),
            ]
            for result in query.results[:MOST_RESULTS]
        ],
        len(query.results),
        strings.number(query.failure) if query.failure else -1,
        sorted(
            [strings.number(key), strings.number(value)] for key, value in query.metadata.items()
        ),
    ]


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
