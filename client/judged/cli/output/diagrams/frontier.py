"""The diagram of `judged frontier`, as an SVG: what cascades cost and how accurate they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from judged.cli.output.diagrams.svg import LINE, SOFT, escaped, frame, page, text
from judged.cli.output.frontier import describe_stages
from judged.values import CascadeFrontier, FrontierPoint

_WIDTH, _HEIGHT, _LEFT, _TOP = 420, 280, 60, 50
_MARGIN = 0.05
"""What the axes have beyond the points, as a share of their range."""
_MOST_TICKS = 6
_LEGEND_LINE = 17


def frontier_diagram(found: CascadeFrontier, names: Sequence[str], unit: str) -> str:
    """Return the SVG: accuracy against cost, each with its bound, the proposed one filled."""
    points = [point for point in found.points if point.accuracy is not None]
    across = _Axis([point.cost for point in points], _LEFT, _WIDTH)
    accuracies = [point.accuracy or 0.0 for point in points]
    up = _Axis([*accuracies, *(p.least_accuracy for p in points)], _TOP + _HEIGHT, -_HEIGHT)
    below = _TOP + _HEIGHT + 42
    width, height = _LEFT + _WIDTH + 40, below + 18 + _LEGEND_LINE * len(points)
    tested = f"{found.n_certifying} labels test what {found.n_proposing} others made"
    parts = [
        text(_LEFT, 20, "accuracy and cost of cascades", size=13),
        text(_LEFT, 37, f"{tested}; bars go down to the guarantee", fill=SOFT, size=11),
        *frame(_LEFT, _TOP, _WIDTH, _HEIGHT, "accuracy of what is settled"),
    ]
    parts += [text(_LEFT - 8, up.at(t) + 4, f"{t:.4g}", anchor="end") for t in up.ticks()]
    under = _TOP + _HEIGHT + 18
    parts += [text(across.at(t), under, f"{t:.4g}", anchor="middle") for t in across.ticks()]
    parts.append(text(_LEFT + _WIDTH / 2, below, escaped(f"{unit} an item"), anchor="middle"))
    proposed = None if found.proposed is None else found.points[found.proposed]
    for nth, point in enumerate(points, 1):
        parts += _drawn(point, names, across, up, nth, proposed=point is proposed)
        named = f"{nth}  {describe_stages(point, names)}"
        named += ", proposed" if point is proposed else ""
        parts.append(text(_LEFT, below + 6 + _LEGEND_LINE * nth, escaped(named)))
    return page(escaped(", ".join(names)), width, height, parts)


class _Axis:
    """Puts values on a stretch of the diagram."""

    def __init__(self, values: Sequence[float], start: float, length: float) -> None:
        low, high = min(values, default=0.0), max(values, default=1.0)
        room = (high - low) * _MARGIN or 0.01
        self._low, self._high = low - room, high + room
        self._start, self._length = start, length

    def at(self, value: float) -> float:
        return self._start + self._length * (value - self._low) / (self._high - self._low)

    def ticks(self) -> list[float]:
        """Return round values, _MOST_TICKS at most: multiples of 1, 2 or 5 of a power of ten."""
        span = self._high - self._low
        power = 10.0 ** math.floor(math.log10(span / _MOST_TICKS))
        step = next(s for s in (power, 2 * power, 5 * power, 10 * power) if span / s <= _MOST_TICKS)
        first, last = math.ceil(self._low / step), math.floor(self._high / step)
        return [round(step * n, 12) for n in range(first, last + 1)]


def _drawn(
    point: FrontierPoint,
    names: Sequence[str],
    across: _Axis,
    up: _Axis,
    nth: int,
    *,
    proposed: bool,
) -> list[str]:
    """Return a cascade's point with its number, and the bar down to its bound."""
    x, y = across.at(point.cost), up.at(point.accuracy or 0.0)
    fill = LINE if proposed else "white"
    said = (
        f"{describe_stages(point, names)}: accuracy {point.accuracy or 0.0:.3f}, at least "
        f"{point.least_accuracy:.3f}, {point.settled:.1%} settled, {point.cost:.4g} an item"
    )
    bar = (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{up.at(point.least_accuracy):.1f}" '
        f'stroke="{LINE}" stroke-opacity="0.4" stroke-width="2"/>'
    )
    dot = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{fill}" stroke="{LINE}" '
        f'stroke-width="2"><title>{escaped(said)}</title></circle>'
    )
    return [bar, dot, text(x - 9, y + 4, str(nth), anchor="end", size=11)]
