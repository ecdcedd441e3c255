"""Renders a report as one HTML page that contains its style, script and data.

The script reads the queries from columns. Texts are by far the largest part, so their characters
are limited: the worst queries come first, and the rest have only values, ids and kinds.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Sequence
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
    ends,
    kinds_of,
    number,
    p_value,
    signed,
    signed_ends,
    verdict_of,
    visible,
    worst_first,
)
from judged.values import Interval, MetricResult, RunComparison

_STYLES = {"better": "good", "worse": "bad"}


def to_html(report: Report) -> str:
    """Return the page."""
    run, baseline = report.run, report.baseline
    counts = Counter(kind for query in run.queries for kind in kinds_of(query))
    kinds = [
        {"bit": int(kind), "title": title, "count": counts[kind]}
        for kind, title in KINDS.items()
        if counts[kind]
    ]
    script = _asset("report.js")
    return rendered(
        "report.html.jinja",
        report=report,
        run=run,
        runs=[run] if baseline is None else [run, baseline],
        baseline=baseline,
        about=about(run),
        intervals=any(metric.interval is not None for metric in run.metrics),
        bounds=any(metric.lower_bound is not None for metric in run.metrics),
        confidence=_confidence(run.metrics),
        differences={made.metric: made for made in report.differences},
        test=TEST,
        kinds=kinds,
        kinds_json=Markup(json.dumps(kinds)),  # noqa: S704 - our own words
        order=_order(report),
        means=_means(run, baseline),
        moved=[
            _row(
                made.metric,
                made.difference.value,
                made.difference.interval,
                _STYLES.get(verdict_of(made), "even"),
            )
            for made in report.differences
        ],
        reach=1.1 * max([0.01, *(abs(end) for made in report.differences for end in _ends(made))]),
        packed=pack(report),
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=_hash(script),
    )


def rendered(name: str, **values: object) -> str:
    """Return a page from a template of the folder `page`, with the common style."""
    style = _asset("report.css")
    page: str = template(name).render(
        style=Markup(style),  # noqa: S704 - our own file
        style_hash=_hash(style),
        version=metadata.version("judged"),
        **values,
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


def _row(
    label: str, value: float | None, interval: Interval | None, style: str = "bar"
) -> dict[str, Any]:
    return {"label": visible(label), "value": value, "interval": interval, "style": style}


def _ends(made: RunComparison) -> list[float]:
    value, interval = made.difference.value, made.difference.interval
    ends = [] if interval is None else [interval.lower, interval.upper]
    return ends if value is None else [value, *ends]


def _means(run: Run, baseline: Run | None) -> list[dict[str, Any]]:
    before = {} if baseline is None else {m.name: m for m in baseline.metrics}
    rows = []
    for metric in run.metrics:
        rows.append(_row(metric.name, metric.mean, metric.interval))
        if (was := before.get(metric.name)) is not None:
            rows.append(_row("baseline", was.mean, was.interval, "before"))
    return rows


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
    filters = (visible, number, signed, ends, signed_ends, p_value, verdict_of)
    environment.filters |= {each.__name__: each for each in filters}
    return environment.get_template(name)


@cache
def _asset(name: str) -> str:
    return resources.files("judged.report").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


MOST_TEXT = 1_500_000
"""Limit on the characters of all texts of a page together."""
LONGEST_TEXT = 4000
LONGEST_QUERY = 300
MOST_RESULTS = 20


def pack(report: Report) -> dict[str, object]:
    """Return the queries of a report, worst first, with their texts until MOST_TEXT is reached.

    They are base64 of zlib, with how many queries there are, and how many of them have texts.
    """
    ordered = worst_first(report.run, report.baseline)
    metrics = [metric.name for metric in report.run.metrics]
    runs = [run for run in (report.baseline, report.run) if run is not None]
    details: list[object] = []
    room = MOST_TEXT
    for query in ordered:
        detail = [_detail(run.by_id.get(query.query_id)) for run in runs]
        room -= len(json.dumps(detail, ensure_ascii=False))
        if room < 0:
            break
        details.append(detail)
    content = {
        "metrics": [visible(name) for name in metrics],
        "runs": [visible(run.name) for run in runs],
        "ids": [visible(query.query_id) for query in ordered],
        "queries": [_shown(query.query, LONGEST_QUERY) for query in ordered],
        "values": _values(report.run, ordered, metrics),
        "before": None if report.baseline is None else _values(report.baseline, ordered, metrics),
        "first": [query.first_hit for query in ordered],
        "kinds": [int(kinds_of(query)) for query in ordered],
        "details": details,
    }
    packed = zlib.compress(json.dumps(content, ensure_ascii=False).encode())
    data = base64.b64encode(packed).decode()
    return {"data": data, "with_texts": len(details), "queries": len(ordered)}


def _values(
    run: Run, queries: Sequence[ReportedQuery], metrics: Sequence[str]
) -> list[list[float | None]]:
    """Return the values of queries in a run by metric; None for queries that the run lacks."""
    found = [run.by_id.get(query.query_id) for query in queries]
    values = [{} if each is None else each.values for each in found]
    return [[_short(each.get(name)) for each in values] for name in metrics]


def _detail(query: ReportedQuery | None) -> dict[str, object] | None:
    """Return what the page shows of an opened query; None if nothing is known."""
    if query is None or not (query.expected or query.retrieved or query.failure):
        return None
    return {
        "expected": [_shown(text) for text in query.expected],
        "failure": _shown(query.failure),
        "total": len(query.retrieved),
        "results": [
            {
                "id": _shown(result.document_id),
                "text": _shown(result.text),
                "relevant": result.relevant,
                "score": _short(result.score),
                "status": result.status,
                "agreement": _short(result.agreement),
                "error": _shown(result.error, LONGEST_QUERY),
                "matches": result.matches,
                "duplicate": result.duplicate,
            }
            for result in query.retrieved[:MOST_RESULTS]
        ],
    }


def _shown(text: str | None, longest: int = LONGEST_TEXT) -> str | None:
    """Return a text, cut with an ellipsis if it is longer."""
    if text is None:
        return None
    return visible(text if len(text) <= longest else f"{text[:longest]}…")


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
