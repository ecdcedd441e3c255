"""A page on one load run: an inline SVG of latency by percentile, and tables. No other file.

The horizontal axis is stretched towards 100 %: each further nine takes as much room as the one
before, as HdrHistogram's plots have it.
"""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

from benchmarks.load.open_loop import PERCENTILES, Outcome, Tally

WIDTH, HEIGHT = 860, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 20, 50
COLOURS = ("#1f4e79", "#c0504d", "#4f8a3d", "#8064a2", "#d08a1d", "#3a9c9c", "#7f7f7f")
_TICKS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999)
_STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:880px;color:#222}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .7rem;text-align:right;
border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}
svg{width:100%;height:auto}svg text{font:12px system-ui,sans-serif;fill:#444}"""


def page(title: str, outcome: Outcome, facts: Mapping[str, object]) -> str:
    """Return the HTML document of a run."""
    tallies = series(outcome)
    rows = "".join(
        f"<tr><td>{html.escape(str(name))}</td><td>{html.escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{html.escape(title)}</h1>"
        "<p>Latency in milliseconds, from the instant a request was due to its whole answer.</p>"
        f"{plot(tallies)}{_latencies(tallies)}{_counts(tallies)}<table>{rows}</table>"
        "</body></html>\n"
    )


def series(outcome: Outcome) -> dict[str, Tally]:
    """Return the tallies by name, all together first where there is more than one."""
    tallies = dict(sorted(outcome.tallies.items()))
    return {"all": outcome.total, **tallies} if len(tallies) > 1 else tallies


def plot(tallies: Mapping[str, Tally]) -> str:
    """Return the key and the SVG: a line a tally, up to the last percentile its count supports."""
    shown = {name: tally for name, tally in tallies.items() if tally.answered}
    if not shown:
        return "<p>No request was answered.</p>"
    most = max(tally.answered for tally in shown.values())
    ticks = [tick for tick in _TICKS if tick == 0 or most * (1 - tick / 100) >= 1]
    end = math.log10(most) if most > 1 else 1.0
    top = max(tally.milliseconds(100) for tally in shown.values())
    step = _round_step(top / 6)
    ceiling = step * math.ceil(top / step)

    def x(percentile: float) -> float:
        nines = min(end, -math.log10(max(1e-9, 1 - percentile / 100)))
        return LEFT + (WIDTH - LEFT - RIGHT) * nines / end

    def y(milliseconds: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * milliseconds / ceiling

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="latency by percentile">']
    for i in range(round(ceiling / step) + 1):
        parts.append(_rule(LEFT, y(i * step), WIDTH - RIGHT, y(i * step)))
        parts.append(_text(LEFT - 8, y(i * step) + 4, f"{i * step:g}", "end"))
    for tick in ticks:
        parts.append(_rule(x(tick), TOP, x(tick), HEIGHT - BOTTOM))
        parts.append(_text(x(tick), HEIGHT - BOTTOM + 18, f"{tick:g} %", "middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "percentile of requests", "middle"))
    parts.append(_text(LEFT - 55, TOP - 6, "ms", "start"))
    key = ""
    for i, (name, tally) in enumerate(shown.items()):
        colour = COLOURS[i % len(COLOURS)]
        points = " ".join(f"{x(p):.1f},{y(ms):.1f}" for p, ms in curve(tally))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        key += f'<span style="color:{colour}">&#9632;</span> {html.escape(name)} &emsp;'
    return f"<p>{key}</p>{''.join(parts)}</svg>"


def curve(tally: Tally) -> list[tuple[float, float]]:
    """Return points (percentile, milliseconds), denser towards 100 as the axis is."""
    nines = math.log10(tally.answered) if tally.answered > 1 else 0.0
    steps = max(1, round(nines * 40))
    percentiles = [100 * (1 - 10 ** (-nines * i / steps)) for i in range(steps + 1)]
    return [(p, tally.milliseconds(p)) for p in percentiles] + [(100.0, tally.milliseconds(100))]


def _latencies(tallies: Mapping[str, Tally]) -> str:
    head = "".join(f"<th>{percentile:g} %</th>" for percentile in PERCENTILES)
    rows = ""
    for name, tally in tallies.items():
        cells = [f"{tally.milliseconds(p):.2f}" if tally.answered else "-" for p in PERCENTILES]
        rows += _row(name, cells)
    return f"<table><tr><th>ms</th>{head}</tr>{rows}</table>"


def _counts(tallies: Mapping[str, Tally]) -> str:
    codes = sorted({code for tally in tallies.values() for code in tally.errors})
    head = "".join(f"<th>{html.escape(code)}</th>" for code in codes)
    rows = ""
    for name, tally in tallies.items():
        numbers = [tally.sent, tally.answered, tally.contexts, tally.missing_verdicts]
        rows += _row(name, [str(n) for n in (*numbers, *(tally.errors[code] for code in codes))])
    return (
        "<table><tr><th>requests</th><th>sent</th><th>answered</th><th>contexts</th>"
        f"<th>verdicts missing</th>{head}</tr>{rows}</table>"
    )


def _row(name: str, cells: Sequence[str]) -> str:
    return f"<tr><td>{html.escape(name)}</td>{''.join(f'<td>{c}</td>' for c in cells)}</tr>"


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#e3e3e3"/>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _round_step(step: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least `step`."""
    power = 10.0 ** math.floor(math.log10(max(step, 1e-6)))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)
