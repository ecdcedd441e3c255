"""What the diagrams have in common: their colours, and texts in them."""

from __future__ import annotations

from collections.abc import Iterable

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


def escaped(words: str) -> str:
    """Return words as an SVG can hold them."""
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
