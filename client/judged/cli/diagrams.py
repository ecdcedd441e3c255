"""Diagrams, as SVG: what cascades cost and how accurate they are; how far to believe a judge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

from judged.values import CascadeFrontier, FrontierPoint, Reliability

INK, SOFT, LINE = "#1f2933", "#7b8794", "#2a6fb0"


def page(title: str, width: float, height: float, parts: Iterable[str]) -> str:
    """Return the SVG of a diagram with its parts on white ground; `title` is escaped."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">'
    )
    ground = f'<rect width="{width}" height="{height}" fill="white"/>'
    return "\n".join([head, ground, f"<title>{title}</title>", *parts, "</svg>\n"])


def frame(x: float, y: float, width: float, height: float, label: str) -> list[str]:
    """Return the frame of a plot, and the label of the axis at its left."""
    turned = f'transform="translate(18 {y + height / 2}) rotate(-90)"'
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="none" stroke="{SOFT}"/>',
        f'<text {turned} text-anchor="middle" fill="{INK}">{label}</text>',
    ]


def text(
    x: float, y: float, words: str, *, anchor: str = "start", fill: str = INK, size: int = 12
) -> str:
    """Return an element with escaped words at a place."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" '
        f'font-size="{size}">{words}</text>'
    )


_SIZE, _COUNTS = 320, 60
_WIDTH, _HEIGHT, _LEFT, _TOP = 420, 280, 60, 50
_MARGIN = 0.05
"""What the axes have beyond the points, as a share of their range."""
_MOST_TICKS = 6
_LEGEND_LINE = 17


def describe_stages(point: FrontierPoint, names: Sequence[str]) -> str:
    """Return the judges of a cascade in order, with the share of the items that reaches each."""
    parts = [names[stage.stage] for stage in point.stages[:1]]
    parts += [f"{names[stage.stage]} {stage.share:.0%}" for stage in point.stages[1:]]
    return " > ".join(parts)


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
    parts.append(text(_LEFT + _WIDTH / 2, below, escape(f"{unit} an item"), anchor="middle"))
    proposed = None if found.proposed is None else found.points[found.proposed]
    for nth, point in enumerate(points, 1):
        parts += _drawn(point, names, across, up, nth, proposed=point is proposed)
        named = f"{nth}  {describe_stages(point, names)}"
        named += ", proposed" if point is proposed else ""
        parts.append(text(_LEFT, below + 6 + _LEGEND_LINE * nth, escape(named)))
    return page(escape(", ".join(names)), width, height, parts)


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
        f'stroke-width="2"><title>{escape(said)}</title></circle>'
    )
    return [bar, dot, text(x - 9, y + 4, str(nth), anchor="end", size=11)]


def reliability_diagram(found: Reliability, judge: str) -> str:
    """Return the SVG: a point a bin with its interval, and below how many items each bin has.

    `judge` is a signature, of which the head says whose probabilities they are.
    """
    diagonal = f'x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"'
    parts = [
        text(_LEFT, 20, escape(judge.partition("|")[0]), size=13),
        text(_LEFT, 37, _summary(found), fill=SOFT, size=11),
        *frame(_LEFT, _TOP, _SIZE, _SIZE, "share that is relevant"),
        f'<line {diagonal} stroke="{SOFT}" stroke-dasharray="4 4"/>',
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(text(_LEFT - 8, _y(tick) + 4, f"{tick:g}", anchor="end"))
        parts.append(text(_x(tick), _TOP + _SIZE + _COUNTS + 34, f"{tick:g}", anchor="middle"))
    parts.append(text(_x(0.5), _TOP + _SIZE + _COUNTS + 54, "probability", anchor="middle"))
    return page(
        escape(judge),
        _LEFT + _SIZE + 60,
        _TOP + _SIZE + _COUNTS + 66,
        [*parts, *_points(found), *_bars(found)],
    )


def _points(found: Reliability) -> list[str]:
    parts = []
    for each in found.bins:
        if not each.n:
            continue
        x = f"{_x(each.probability):.1f}"
        parts.append(
            f'<line x1="{x}" y1="{_y(each.lower):.1f}" x2="{x}" y2="{_y(each.upper):.1f}" '
            f'stroke="{LINE}" stroke-width="2"/>'
        )
        parts.append(
            f'<circle cx="{x}" cy="{_y(each.relevant):.1f}" r="4" fill="{LINE}">'
            f"<title>{each.n} items: probability {each.probability:.3f}, relevant "
            f"{each.relevant:.3f} ({each.lower:.3f} to {each.upper:.3f})</title></circle>"
        )
    return parts


def _bars(found: Reliability) -> list[str]:
    """Return the bars of counts under the diagram."""
    most = max([each.n for each in found.bins], default=0)
    width, floor = _SIZE / len(found.bins), _TOP + _SIZE + 14 + _COUNTS
    parts = []
    for place, each in enumerate(found.bins):
        if not each.n:
            continue
        height = max(1.0, (_COUNTS - 16) * each.n / most)
        x = _LEFT + place * width
        parts.append(
            f'<rect x="{x + 2:.1f}" y="{floor - height:.1f}" width="{width - 4:.1f}" '
            f'height="{height:.1f}" fill="{LINE}" fill-opacity="0.35"/>'
        )
        parts.append(text(x + width / 2, floor - height - 3, str(each.n), anchor="middle", size=10))
    return parts


def _summary(found: Reliability) -> str:
    error = None if found.calibration_error is None else found.calibration_error.value
    brier = None if found.brier is None else found.brier.value
    how = "cross-validated" if found.fitted else "not fitted on them"
    numbers = [f"{found.n_labels} labels of {found.n_clusters} queries, {how}"]
    numbers += [] if error is None else [f"ECE {error:.3f}"]
    numbers += [] if brier is None else [f"Brier {brier:.3f}"]
    return escape("; ".join(numbers))


def _x(value: float) -> float:
    return _LEFT + _SIZE * value


def _y(value: float) -> float:
    return _TOP + _SIZE * (1 - value)
