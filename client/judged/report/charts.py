"""Charts as SVG: bars, intervals, histograms. Colours come from the page's style sheet.

Numbers in them are also in tables of the page, so a chart is one image with a name for those who
can't see it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

_LABEL = 190
_PLOT = 400
_VALUE = 200
_ROW = 26
_SHOWN_LABEL = 28


@dataclass(frozen=True, slots=True)
class Bar:
    """One row: a value with an interval around it, where there is one."""

    label: str
    value: float | None
    lower: float | None = None
    upper: float | None = None
    style: str = "bar"


def bars(name: str, rows: Sequence[Bar]) -> Markup:
    """Return horizontal bars over [0, 1], each with its interval as a whisker."""

    def drawn(row: Bar, value: float, y: float) -> Markup:
        return Markup('<rect class="{}" x="{}" y="{}" width="{:.1f}" height="{}" rx="2"/>').format(
            row.style, _LABEL, y, _PLOT * _clamp(value), _ROW - 8
        )

    # A t interval may reach beyond; the numbers beside the bar say how far.
    return _rows(name, rows, [0, 0.25, 0.5, 0.75, 1.0], (0.0, 1.0), drawn)


def differences(name: str, rows: Sequence[Bar]) -> Markup:
    """Return differences around 0, each with its interval."""
    ends = [
        abs(end) for row in rows for end in (row.value, row.lower, row.upper) if end is not None
    ]
    reach = max([*ends, 0.01]) * 1.1

    def drawn(row: Bar, value: float, y: float) -> Markup:
        x = _LABEL + _PLOT * (value + reach) / (2 * reach)
        return Markup('<circle class="{}" cx="{:.1f}" cy="{}" r="5"/>').format(row.style, x, y + 9)

    return _rows(name, rows, [-reach / 1.1, 0, reach / 1.1], (-reach, reach), drawn, sign="+")


def _rows(
    name: str,
    rows: Sequence[Bar],
    ticks: Sequence[float],
    ends: tuple[float, float],
    drawn: Callable[[Bar, float, float], Markup],
    sign: str = "",
) -> Markup:
    """Return a row a value, with its interval and both as numbers; a sign has its mark on top."""
    low, high = ends
    height = _ROW * len(rows) + 24
    parts = [_grid(height - 20, ticks, low, high, "{:+.2f}" if sign else "{:g}")]

    def at(value: float) -> float:
        return _LABEL + _PLOT * _clamp((value - low) / (high - low))

    for index, row in enumerate(rows):
        y = _ROW * index + 4
        parts.append(_label(row.label, y))
        if row.value is None:
            parts.append(_text(_LABEL + 6, y + 13, "no value", "value"))
            continue
        mark, shown = [drawn(row, row.value, y)], f"{row.value:{sign}.4f}"
        if row.lower is not None and row.upper is not None:
            mark.insert(0 if sign else 1, _whisker(at(row.lower), at(row.upper), y + 9))
            shown += f" [{row.lower:{sign}.3f}, {row.upper:{sign}.3f}]"
        parts += [*mark, _text(_LABEL + _PLOT + 10, y + 13, shown, "value")]
    return _svg(name, height, parts)


def histogram(
    name: str,
    counts: Sequence[int],
    labels: Sequence[str],
    *,
    threshold: float | None = None,
    axis: str = "",
) -> Markup:
    """Return columns, one a count. `threshold` in [0, 1] is drawn as a line across their width."""
    width, height, left, bottom = _LABEL + _PLOT + _VALUE, 190, 46, 40
    plot_width, plot_height = width - left - 12, height - bottom - 24
    most = max([*counts, 1])
    step = plot_width / max(1, len(counts))
    parts = [
        Markup('<line class="grid" x1="{0}" y1="{1}" x2="{2}" y2="{1}"/>').format(
            left, 24 + plot_height, width - 12
        ),
        _text(left - 6, 30, f"{most}", "tick end"),
        _text(left - 6, 28 + plot_height, "0", "tick end"),
    ]
    every = max(1, -(-len(labels) // 11))
    for index, (count, label) in enumerate(zip(counts, labels, strict=True)):
        x = left + step * index
        tall = plot_height * count / most
        parts.append(
            Markup(
                '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
                "<title>{}: {}</title></rect>"
            ).format(x + 1, 24 + plot_height - tall, max(1.0, step - 2), tall, label, count)
        )
        # The last one may be of another kind than those before it, such as "none".
        if index % every == 0 or index == len(labels) - 1:
            parts.append(_text(x + step / 2, 40 + plot_height, label, "tick middle"))
    if axis:
        parts.append(_text(left + plot_width / 2, height - 4, axis, "tick middle"))
    if threshold is not None:
        x = left + plot_width * _clamp(threshold)
        parts.append(
            Markup('<line class="threshold" x1="{0:.1f}" y1="14" x2="{0:.1f}" y2="{1}"/>').format(
                x, 24 + plot_height
            )
        )
        side = "end" if threshold > 0.5 else "start"
        parts.append(
            _text(x + (-5 if side == "end" else 5), 12, f"threshold {threshold:g}", f"tick {side}")
        )
    columns = ", ".join(f"{label}: {n}" for label, n in zip(labels, counts, strict=True))
    limit = "" if threshold is None else f"; threshold {threshold:g}"
    return _svg(name, height, parts, f"{name}; {columns}{limit}")


def _svg(name: str, height: float, parts: Sequence[Markup], read_out: str = "") -> Markup:
    """Return a chart. `read_out` is read in place of the picture, where no table has its values."""
    return Markup(
        '<div class="chart" tabindex="0" role="region" aria-label="{0}">'
        '<svg role="img" aria-label="{4}" viewBox="0 0 {1} {2}" '
        'preserveAspectRatio="xMinYMin meet">{3}</svg></div>'
    ).format(name, _LABEL + _PLOT + _VALUE, height, Markup("").join(parts), read_out or name)


def _grid(bottom: float, values: Sequence[float], low: float, high: float, form: str) -> Markup:
    lines = Markup("")
    for value in values:
        x = _LABEL + _PLOT * (value - low) / (high - low)
        lines += Markup('<line class="grid" x1="{0:.1f}" y1="0" x2="{0:.1f}" y2="{1}"/>').format(
            x, bottom
        )
        lines += _text(x, bottom + 16, form.format(value), "tick middle")
    return lines


def _whisker(start: float, end: float, y: float) -> Markup:
    return Markup(
        '<path class="whisker" d="M{0:.1f} {2}H{1:.1f}M{0:.1f} {3}v8M{1:.1f} {3}v8"/>'
    ).format(start, end, y, y - 4)


def _label(label: str, y: float) -> Markup:
    short = label if len(label) <= _SHOWN_LABEL else f"{label[: _SHOWN_LABEL - 1]}…"
    return _text(_LABEL - 8, y + 13, short, "label end")


def _text(x: float, y: float, text: str, style: str) -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>').format(
        style, x, y, escape(text)
    )


def _clamp(value: float) -> float:
    return min(1.0, max(0.0, value))
