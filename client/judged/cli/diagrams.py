"""Diagrams, as SVG: what cascades cost and how accurate they are; how far to believe a judge."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from judged.values import CascadeFrontier, FrontierPoint, Reliability

_LEFT, _TOP, _LINE = 60, 50, "#2a6fb0"
_MOST_TICKS = 6


class _Axis:
    """Puts values on a stretch of a diagram, with a share of their range as room at both ends."""

    def __init__(self, values: Iterable[float], start: int, length: int, room: float = 0) -> None:
        known = list(values) or [0.0, 1.0]
        low, high = min(known), max(known)
        beyond = (high - low) * room or (0.0 if high > low else 0.01)
        self._low, self._span = low - beyond, high - low + 2 * beyond
        self.start, self.length = start, length

    def at(self, value: float) -> float:
        return self.start + self.length * (value - self._low) / self._span

    def ticks(self) -> list[float]:
        """Return round values, _MOST_TICKS at most: multiples of 1, 2 or 5 of a power of ten."""
        power = 10.0 ** math.floor(math.log10(self._span / _MOST_TICKS))
        steps = (power, 2 * power, 5 * power, 10 * power)
        step = next(step for step in steps if self._span / step <= _MOST_TICKS)
        first, last = (end / step for end in (self._low, self._low + self._span))
        return [round(step * n, 12) for n in range(math.ceil(first), math.floor(last) + 1)]


def _drawn(**parts: object) -> str:
    from judged.report.html import template  # noqa: PLC0415 - jinja2 takes a while to load

    return template("diagram.svg.jinja").render({"diagonal": False, "counts": (), **parts})


def describe_stages(point: FrontierPoint, names: Sequence[str]) -> str:
    """Return the judges of a cascade in order, with the share of the items that reaches each."""
    parts = [names[stage.stage] for stage in point.stages[:1]]
    parts += [f"{names[stage.stage]} {stage.share:.0%}" for stage in point.stages[1:]]
    return " > ".join(parts)


def frontier_diagram(found: CascadeFrontier, names: Sequence[str], unit: str) -> str:
    """Return the SVG: accuracy against cost, each with its bound, the proposed one filled."""
    known = [(point, point.accuracy) for point in found.points if point.accuracy is not None]
    bounds = [end for point, accuracy in known for end in (accuracy, point.least_accuracy)]
    across = _Axis((point.cost for point, _ in known), _LEFT, 420, 0.05)
    up = _Axis(bounds, _TOP + 280, -280, 0.05)
    proposed = None if found.proposed is None else found.points[found.proposed]
    points, legend = [], []
    for point, accuracy in known:
        stages, y = describe_stages(point, names), up.at(accuracy)
        said = (
            f"{stages}: accuracy {accuracy:.3f}, at least {point.least_accuracy:.3f}, "
            f"{point.settled:.1%} settled, {point.cost:.4g} an item"
        )
        fill = _LINE if point is proposed else "white"
        points.append((across.at(point.cost), y, y, up.at(point.least_accuracy), fill, said))
        legend.append(f"{stages}, proposed" if point is proposed else stages)
    tested = f"{found.n_certifying} labels test what {found.n_proposing} others made"
    return _drawn(
        title=", ".join(names),
        head="accuracy and cost of cascades",
        note=f"{tested}; bars go down to the guarantee",
        across=across,
        up=up,
        names=(f"{unit} an item", "accuracy of what is settled"),
        points=points,
        legend=legend,
        below=60 + 17 * len(points),
    )


def reliability_diagram(found: Reliability, judge: str) -> str:
    """Return the SVG: a point a bin with its interval, and below how many items each bin has.

    `judge` is a signature, of which the head says whose probabilities they are.
    """
    across, up = _Axis((0, 1), _LEFT, 320), _Axis((0, 1), _TOP + 320, -320)
    points = []
    for each in found.bins:
        said = (
            f"{each.n} items: probability {each.probability:.3f}, relevant {each.relevant:.3f} "
            f"({each.lower:.3f} to {each.upper:.3f})"
        )
        if each.n:
            ends = up.at(each.relevant), up.at(each.lower), up.at(each.upper)
            points.append((across.at(each.probability), *ends, _LINE, said))
    how = "cross-validated" if found.fitted else "not fitted on them"
    told = [f"{found.n_labels} labels of {found.n_clusters} queries, {how}"]
    for name, estimate in (("ECE", found.calibration_error), ("Brier", found.brier)):
        if estimate is not None and estimate.value is not None:
            told.append(f"{name} {estimate.value:.3f}")
    return _drawn(
        title=judge,
        head=judge.partition("|")[0],
        note="; ".join(told),
        across=across,
        up=up,
        names=("probability", "share that is relevant"),
        points=points,
        legend=(),
        diagonal=True,
        counts=[each.n for each in found.bins],
        below=110,
    )
