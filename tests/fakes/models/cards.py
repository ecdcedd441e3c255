"""Cards of embedding models that differ in one field, whatever fields there are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from judged_server.embedding.base import ModelCard


def others_than(card: ModelCard) -> Iterator[tuple[str, ModelCard]]:
    """Yield a card for each field that can change a vector of its size, and the field's name."""
    for field in fields(card):
        value = getattr(card, field.name)
        if field.name not in {"name", "dimensions"}:
            other: Any = not value if isinstance(value, bool) else value + type(value)(1)
            changed: dict[str, Any] = {field.name: other}
            yield field.name, replace(card, **changed)
