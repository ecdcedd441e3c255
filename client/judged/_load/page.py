"""Renders the JSON document of `judged load` as one HTML page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from judged.report.html import rendered

_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 770.0, 10.0, 190.0
"""Edges of a chart's plot area, in SVG units."""
_TICKS = (1, 2, 5, 10)


def to_html(document: Mapping[str, Any]) -> str:
    """Return the page."""
    over_time: Sequence[Mapping[str, float]] = document["over_time"]
    measured = [step for step in document.get("steps", ()) if step["p99_ms"] is not None]
    bound = document.get("p99_ms")
    times = [each["from_s"] for each in over_time]
    charts = []
    if over_time:
        lines = {name: [each[f"{name}_ms"] for each in over_time] for name in ("p50", "p99")}
        lines["max"] = [each["p100_ms"] for each in over_time]
        charts.append(_chart("Latency over time", "seconds", times, lines, bound))
    if measured:
        measured.sort(key=lambda step: step["rps"])
        rates = [step["rps"] for step in measured]
        lines = {name: [step[f"{name}_ms"] for step in measured] for name in ("p50", "p99")}
        charts.append(_chart("Latency by rate", "requests a second", rates, lines, bound))
    return rendered("load.html.jinja", charts=charts, **document)


def _chart(
    title: str,
    unit: str,
    along: Sequence[float],
    lines: Mapping[str, Sequence[float]],
    bound: float | None,
) -> dict[str, Any]:
    """Return what the template draws: the points of lines, and ticks, in SVG units."""
    begin, end = along[0], max(along[-1], along[0] + 1e-9)
    highest = max(max(line) for line in lines.values())
    scale = 10.0 ** math.floor(math.log10(highest))
    ceiling = next(tick * scale for tick in _TICKS if highest <= tick * scale)

    def x(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (value - begin) / (end - begin)

    def y(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * value / ceiling

    return {
        "title": f"{title}, in ms",
        "unit": unit,
        "lines": {
            name: " ".join(
                f"{x(at):.1f},{y(value):.1f}" for at, value in zip(along, line, strict=True)
            )
            for name, line in lines.items()
        },
        "across": [(y(ceiling * part / 4), f"{ceiling * part / 4:g}") for part in range(5)],
        "along": [(x(at), f"{at:.3g}") for at in (begin, (begin + end) / 2, end)],
        "bound": y(bound) if bound is not None and bound <= ceiling else None,
    }
