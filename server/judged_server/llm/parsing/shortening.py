"""What is kept of a model's reasoning: bounded, and fit to be sent on."""

from __future__ import annotations

MAX_REASONING = 2000
"""Characters of reasoning that are kept; an ellipsis stands for the rest."""


def shortened(text: str) -> str:
    """Return `text` cut to MAX_REASONING characters, with U+FFFD for each lone surrogate."""
    if len(text) > MAX_REASONING:
        text = text[: MAX_REASONING - 1] + "…"
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
