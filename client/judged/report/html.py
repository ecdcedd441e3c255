"""A report as one HTML page: style, script and data in the file, nothing fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib import metadata, resources
from typing import Any

import jinja2
from markupsafe import Markup

from judged.report.charts import Bar, bars, differences, histogram
from judged.report.columns import pack
from judged.report.content import MetricMean, Report, Run
from judged.report.failures import Kind, kinds_of
from judged.report.summary import about, coverage_lines, decimal, number, p_value, signed, took
from judged.report.texts import visible

_SCORE_BINS = 20
_SHOWN_RANKS = 10
_MOST_SLICES = 30


def to_html(report: Report, room: int | None = None) -> str:
    """Return the page. `room` bounds the bytes of its packed queries; by default 450 a query."""
    run, baseline = report.run, report.baseline
    counts = Counter(kind for query in run.queries for kind in kinds_of(query))
    kinds = [
        {
            "bit": int(kind),
            "title": kind.title,
            "explanation": kind.explanation,
            "count": counts[kind],
            "order": "The worst come first." if counts[kind] > 1 else "",
        }
        for kind in Kind
        if counts[kind]
    ]
    style, script = _asset("report.css"), _asset("report.js")
    page: str = _template().render(
        report=report,
        run=run,
        runs=[run] if baseline is None else [run, baseline],
        baseline=baseline,
        about=about(run),
        coverage=coverage_lines(run),
        took=took(run),
        intervals=any(metric.lower is not None for metric in run.metrics),
        bounds=any(metric.lower_bound is not None for metric in run.metrics),
        confidence=_confidence(run.metrics),
        differences={made.metric: made for made in report.differences},
        kinds=kinds,
        kinds_json=Markup(json.dumps([{"bit": k["bit"], "title": k["title"]} for k in kinds])),  # noqa: S704 - words of ours
        classified=any(query.first_hit is not None for query in run.queries),
        order=_order(report),
        charts=_charts(report),
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


def _confidence(metrics: Sequence[MetricMean]) -> str:
    known = {metric.confidence for metric in metrics if metric.confidence is not None}
    return f" ({known.pop():.4g})" if len(known) == 1 else ""


def _charts(report: Report) -> dict[str, Any]:
    run = report.run
    rows = []
    before = {} if report.baseline is None else {m.name: m for m in report.baseline.metrics}
    for metric in run.metrics:
        rows.append(_bar(metric, metric.name))
        if metric.name in before:
            rows.append(_bar(before[metric.name], "baseline", "before"))
    return {
        "metrics": bars("Means of the metrics, as bars", rows) if rows else "",
        "differences": _difference_chart(report),
        "slices": _slice_charts(run),
        "scores": _scores_chart(run),
        "first_hit": _ranks_chart(run),
    }


def _bar(metric: MetricMean, label: str, style: str = "bar") -> Bar:
    return Bar(visible(label), metric.mean, metric.lower, metric.upper, style)


def _difference_chart(report: Report) -> Markup | str:
    if not report.differences:
        return ""
    styles = {"better": "good", "worse": "bad"}
    rows = [
        Bar(
            visible(made.metric),
            made.difference,
            made.lower,
            made.upper,
            styles.get(made.verdict, "even"),
        )
        for made in report.differences
    ]
    return differences("Differences from the baseline with their intervals", rows)


def _slice_charts(run: Run) -> list[tuple[str, Markup]]:
    by_key: dict[str, list[Bar]] = {}
    for part in run.slices:
        metric = next((m for m in part.metrics if m.name == run.primary), None)
        rows = by_key.setdefault(part.key, [])
        if metric is not None and len(rows) < _MOST_SLICES:
            rows.append(_bar(metric, part.value or "(none)"))
    return [
        (key, bars(f"Means of {visible(run.primary)} by {visible(key)}", rows))
        for key, rows in by_key.items()
    ]


def _scores_chart(run: Run) -> Markup | str:
    scores = [
        result.score
        for query in run.queries
        for result in query.results
        if result.score is not None
    ]
    if not scores:
        return ""
    counts = [0] * _SCORE_BINS
    for score in scores:
        counts[min(_SCORE_BINS - 1, int(score * _SCORE_BINS + 1e-9))] += 1
    labels = [f"{bin_ / _SCORE_BINS:.2f}" for bin_ in range(_SCORE_BINS)]
    name = f"How many of {len(scores)} results have which score, the best over the expected texts"
    return histogram(name, counts, labels, threshold=run.threshold, axis="score, from")


def _ranks_chart(run: Run) -> Markup | str:
    known = [query.first_hit for query in run.queries if query.first_hit is not None]
    if not known:
        return ""
    counts = [known.count(rank) for rank in range(1, _SHOWN_RANKS + 1)]
    below = sum(rank > _SHOWN_RANKS for rank in known)
    labels = [f"{rank}" for rank in range(1, _SHOWN_RANKS + 1)]
    counts, labels = [*counts, below, known.count(0)], [*labels, f">{_SHOWN_RANKS}", "none"]
    name = f"How many of {len(known)} queries have their first relevant result at which rank"
    return histogram(name, counts, labels, axis="rank")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "visible": visible,
        "number": number,
        "signed": signed,
        "pvalue": p_value,
        "decimal": decimal,
    }
    return environment.from_string(_asset("report.html.jinja"))


@cache
def _asset(name: str) -> str:
    return resources.files("judged.report").joinpath("page", name).read_text("utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
