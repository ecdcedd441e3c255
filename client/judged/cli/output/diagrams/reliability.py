"""The reliability diagram of a calibration, as an SVG: what was said against what was so."""

from __future__ import annotations

from judged.cli.output.diagrams.svg import LINE, SOFT, escaped, frame, page, text
from judged.values import Reliability

_SIZE, _LEFT, _TOP, _COUNTS = 320, 60, 50, 60
_WIDTH, _HEIGHT = _LEFT + _SIZE + 60, _TOP + _SIZE + _COUNTS + 66


def reliability_diagram(found: Reliability, judge: str) -> str:
    """Return the SVG: a point a bin with its interval, and below how many items each bin has.

    `judge` is a signature, of which the head says whose probabilities they are.
    """
    diagonal = f'x1="{_x(0)}" y1="{_y(0)}" x2="{_x(1)}" y2="{_y(1)}"'
    parts = [
        text(_LEFT, 20, escaped(judge.partition("|")[0]), size=13),
        text(_LEFT, 37, _summary(found), fill=SOFT, size=11),
        *frame(_LEFT, _TOP, _SIZE, _SIZE, "share that is relevant"),
        f'<line {diagonal} stroke="{SOFT}" stroke-dasharray="4 4"/>',
    ]
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(text(_LEFT - 8, _y(tick) + 4, f"{tick:g}", anchor="end"))
        parts.append(text(_x(tick), _TOP + _SIZE + _COUNTS + 34, f"{tick:g}", anchor="middle"))
    parts.append(text(_x(0.5), _TOP + _SIZE + _COUNTS + 54, "probability", anchor="middle"))
    return page(escaped(judge), _WIDTH, _HEIGHT, [*parts, *_points(found), *_bars(found)])


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
    return escaped("; ".join(numbers))


def _x(value: float) -> float:
    return _LEFT + _SIZE * value


def _y(value: float) -> float:
    return _TOP + _SIZE * (1 - value)
