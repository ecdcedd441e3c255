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

from judged.report.columns import pack
from judged.report.content import TEST, Report, Run, verdict_of
from judged.report.failures import Kind, kinds_of
from judged.report.summary import (
    about,
    coverage_lines,
    decimal,
    ends,
    number,
    p_value,
    signed,
    signed_ends,
    took,
)
from judged.report.texts import visible
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
            "title": kind.title,
            "explanation": kind.explanation,
            "count": counts[kind],
            "order": "The worst come first." if counts[kind] > 1 else "",
        }
        for kind in Kind
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
    scores = [r.score for query in run.queries for r in query.results if r.score is not None]
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
