"""What the diagrams have in common: their colours, and texts in them."""

from __future__ import annotations

INK, SOFT, LINE = "#1f2933", "#7b8794", "#2a6fb0"


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
