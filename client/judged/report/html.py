"""A report as one HTML page: style, script and data in the file, nothing fetched from anywhere.

Its script reads the queries from a table of strings, and columns. Texts are by far the largest
part, so a report has room for so many bytes, and the worst queries fill it first; of the others the
page has values, ids and kinds.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata, resources
from typing import Any

import jinja2
from markupsafe import Markup

from judged.report.content import (
    KINDS,
    TEST,
    Report,
    ReportedQuery,
    Run,
    about,
    coverage_lines,
    cut,
    decimal,
    ends,
    kinds_of,
    number,
    p_value,
    signed,
    signed_ends,
    took,
    verdict_of,
    visible,
    worst_first,
)
from judged.values import Estimate, MetricResult, RunComparison

_SCORE_BINS = 20
_SHOWN_RANKS = 10
_MOST_SLICES = 30
_STYLES = {"better": "good", "worse": "bad"}


def to_html(report: Report, room: int | None = None) -> str:
    """Return the page. `room` bounds the bytes of its packed queries; by default 450 a query."""
    run, baseline = report.run, report.baseline
    counts = Counter(kind for query in run.queries for kind in kinds_of(query))
    kinds = [
        {
            "bit": int(kind),
            "title": title,
            "explanation": explanation,
            "count": counts[kind],
            "order": "The worst come first." if counts[kind] > 1 else "",
        }
        for kind, (title, explanation) in KINDS.items()
        if counts[kind]
    ]
    style, script = _asset("report.css"), _asset("report.js")
    page: str = template("report.html.jinja").render(
        report=report,
        run=run,
        runs=[run] if baseline is None else [run, baseline],
        baseline=baseline,
        about=about(run),
        coverage=coverage_lines(run),
        took=took(run),
        intervals=any(metric.interval is not None for metric in run.metrics),
        bounds=any(metric.lower_bound is not None for metric in run.metrics),
        confidence=_confidence(run.metrics),
        differences={made.metric: made for made in report.differences},
        test=TEST,
        kinds=kinds,
        kinds_json=Markup(json.dumps([{"bit": k["bit"], "title": k["title"]} for k in kinds])),  # noqa: S704 - words of ours
        classified=any(query.first_hit is not None for query in run.queries),
        order=_order(report),
        means=_means(run, baseline),
        moved=[
            _row(made.metric, made.difference, _STYLES.get(verdict_of(made), "even"))
            for made in report.differences
        ],
        reach=1.1 * max([0.01, *(abs(end) for made in report.differences for end in _ends(made))]),
        slices=_slices(run),
        scores=_scores(run),
        ranks=_ranks(run),
        packed=pack(report, room),
        style=Markup(style),  # noqa: S704 - files of ours
        script=Markup(script),  # noqa: S704
        style_hash=_hash(style),
        script_hash=_hash(script),
        version=metadata.version("judged"),
    )
    return page


def _order(report: Report) -> str:
    if not report.run.primary:
        return "sorted by id"
    if report.baseline is None:
        return f"the smallest {report.run.primary} first"
    return f"those that lost most {report.run.primary} first"


def _confidence(metrics: Sequence[MetricResult]) -> str:
    known = {m.interval.confidence for m in metrics if m.interval is not None}
    return f" ({known.pop():.4g})" if len(known) == 1 else ""


def _row(label: str, of: Estimate | None, style: str = "bar") -> dict[str, Any]:
    of = of or Estimate()
    return {"label": visible(label), "value": of.value, "interval": of.interval, "style": style}


def _ends(made: RunComparison) -> list[float]:
    value, interval = made.difference.value, made.difference.interval
    ends = [] if interval is None else [interval.lower, interval.upper]
    return ends if value is None else [value, *ends]


def _mean(metric: MetricResult) -> Estimate:
    return Estimate(metric.mean, metric.interval)


def _means(run: Run, baseline: Run | None) -> list[dict[str, Any]]:
    before = {} if baseline is None else {m.name: m for m in baseline.metrics}
    rows = []
    for metric in run.metrics:
        rows.append(_row(metric.name, _mean(metric)))
        if metric.name in before:
            rows.append(_row("baseline", _mean(before[metric.name]), "before"))
    return rows


def _slices(run: Run) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of slices by key, of many the first."""
    by_key: dict[str, list[dict[str, Any]]] = {}
    for part in run.slices:
        metric = next((m for m in part.metrics if m.name == run.primary), None)
        rows = by_key.setdefault(part.key, [])
        if metric is not None and len(rows) < _MOST_SLICES:
            rows.append(_row(part.value or "(none)", _mean(metric)))
    return by_key


def _scores(run: Run) -> list[tuple[str, int]]:
    """Return how many results have a score in each bin; nothing where none has one."""
    scores = [r.score for query in run.queries for r in query.retrieved if r.score is not None]
    bins = Counter(min(_SCORE_BINS - 1, int(s * _SCORE_BINS + 1e-9)) for s in scores)
    return [(f"{n / _SCORE_BINS:.2f}", bins[n]) for n in range(_SCORE_BINS if scores else 0)]


def _ranks(run: Run) -> list[tuple[str, int]]:
    """Return how many queries have their first hit at each rank; nothing where none is known."""
    known = Counter(query.first_hit for query in run.queries if query.first_hit is not None)
    if not known:
        return []
    below = sum(n for rank, n in known.items() if rank > _SHOWN_RANKS)
    shown = [(str(rank), known[rank]) for rank in range(1, _SHOWN_RANKS + 1)]
    return [*shown, (f">{_SHOWN_RANKS}", below), ("none", known[0])]


@cache
def template(name: str) -> jinja2.Template:
    """Return a template of the folder `page`."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("judged.report", "page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (visible, number, signed, ends, signed_ends, p_value, decimal, verdict_of)
    environment.filters |= {each.__name__: each for each in filters}
    return environment.get_template(name)


@cache
def _asset(name: str) -> str:
    return resources.files("judged.report").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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
    runs = [run for run in (report.baseline, report.run) if run is not None]
    content: dict[str, Any] = {
        "metrics": [visible(name) for name in metrics],
        "runs": [visible(run.name) for run in runs],
        "ids": [strings.number(query.query_id) for query in ordered],
        "queries": [strings.number(cut(query.query, LONGEST_QUERY)) for query in ordered],
        "values": _values(report.run, ordered, metrics),
        "before": None if report.baseline is None else _values(report.baseline, ordered, metrics),
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
        detail = [_detail(run.by_id.get(query.query_id), strings) for run in runs]
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


def _values(
    run: Run, queries: Sequence[ReportedQuery], metrics: Sequence[str]
) -> list[list[float | None]]:
    """Return the values of queries in a run by metric; None for a query that it lacks."""
    found = [run.by_id.get(query.query_id) for query in queries]
    values = [{} if each is None else each.values for each in found]
    return [[_short(each.get(name)) for each in values] for name in metrics]


def _detail(query: ReportedQuery | None, strings: _Strings) -> list[object] | None:
    """Return what the page shows of a query when it is opened; None where nothing is known."""
    if query is None or not (query.expected or query.retrieved or query.failure):
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
            for result in query.retrieved[:MOST_RESULTS]
        ],
        len(query.retrieved),
        strings.number(query.failure) if query.failure else -1,
        sorted(
            [strings.number(key), strings.number(value)] for key, value in query.metadata.items()
        ),
    ]


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
