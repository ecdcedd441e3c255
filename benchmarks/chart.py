"""Draws a bar chart as SVG, without a library.

Defines the chart's look in light and dark mode. `table` chooses the figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 840
LEFT = 330
"""Left end of the bars; the labels are to the left of it."""
RIGHT = 710
"""Right end of the scale; the values of the longest bars are to the right of it."""
TOP = 84
ROW = 44
BAR = 16
STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Allowed distances between grid lines; the smallest that fits is used."""
MOST_LINES = 8

STYLE = """
    text { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2328; }
    .page { fill: #ffffff; }
    .title { font-size: 17px; font-weight: 600; }
    .label { font-size: 13px; font-weight: 600; }
    .note { font-size: 12px; fill: #59636e; }
    .value { font-size: 13px; }
    .bar { fill: #218bff; }
    .spread { stroke: #1f2328; stroke-width: 1.5; }
    .line { stroke: #d1d9e0; }
    .one { stroke: #59636e; stroke-dasharray: 4 3; }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc; }
      .page { fill: #0d1117; }
      .note { fill: #9198a1; }
      .bar { fill: #1f6feb; }
      .spread { stroke: #f0f6fc; }
      .line { stroke: #3d444d; }
      .one { stroke: #9198a1; }
    }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: two lines of label, its length with the extremes, and its value as text."""

    label: str
    note: str
    value: float
    low: float
    high: float
    shown: str


def bar_chart(title: str, note: str, bars: Sequence[Bar]) -> str:
    """Return the chart on a linear scale from 0, with a dashed line at 1 (equal)."""
    step, count = _scale(max((bar.high for bar in bars), default=1))
    unit = (RIGHT - LEFT) / (step * count)
    bottom = TOP + ROW * len(bars)
    height = bottom + 40
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    named = 'role="img" aria-labelledby="title note"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {named}>',
        f"  <style>{STYLE}  </style>",
        f'  <rect class="page" width="{WIDTH}" height="{height}" rx="8"/>',
        f'  <text class="title" id="title" x="24" y="34">{escape(title)}</text>',
        f'  <text class="note" id="note" x="24" y="56">{escape(note)}</text>',
    ]
    for at in range(0, step * count + 1, step):
        x = LEFT + at * unit
        parts.append(_line("line", x, TOP - 8, x, bottom))
        parts.append(_text("note", x, bottom + 20, str(at), "middle"))
    parts.append(_line("one", LEFT + unit, TOP - 8, LEFT + unit, bottom))
    for row, bar in enumerate(bars):
        parts += _drawn(bar, TOP + ROW * row, unit)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _scale(largest: float) -> tuple[int, int]:
    """Return the distance between grid lines and the number of intervals."""
    for step in STEPS:
        count = int(-(-largest // step))
        if count <= MOST_LINES:
            return step, count
    raise ValueError(f"{largest} is too large for a linear scale")


def _drawn(bar: Bar, top: float, unit: float) -> list[str]:
    """Return one row of the chart."""
    middle = top + ROW / 2 - 4
    low, high = LEFT + bar.low * unit, LEFT + bar.high * unit
    place = f'x="{LEFT}" y="{middle - BAR / 2:.1f}" width="{bar.value * unit:.1f}" height="{BAR}"'
    return [
        _text("label", LEFT - 14, middle - 3, bar.label, "end"),
        _text("note", LEFT - 14, middle + 13, bar.note, "end"),
        f'  <rect class="bar" {place} rx="2"/>',
        _line("spread", low, middle, high, middle),
        _text("value", high + 8, middle + 4, bar.shown),
    ]


def _text(kind: str, x: float, y: float, content: str, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'  <text class="{kind}" {place}>{escape(content)}</text>'


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'  <line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
