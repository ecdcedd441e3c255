"""JSON documents, written item by item where they are long."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a long list, or with `named` the names and values of a long object."""

    values: Iterable[Any]
    named: bool = False


def document_texts(document: Mapping[str, object]) -> Iterator[str]:
    """Yield the text of a document in parts, indented by two. Items are read as they are written.

    It is that of `json.dump`. Raises ValueError for a number that is none.
    """
    opening = "{"
    for name, value in document.items():
        yield f"{opening}\n  {_text(name)}: "
        opening = ","
        if isinstance(value, Items):
            yield from _items(value)
        else:
            yield _text(value, 2)
    yield "{}\n" if opening == "{" else "\n}\n"


def _items(items: Items) -> Iterator[str]:
    opening, closing = "{}" if items.named else "[]"
    before = opening
    for item in items.values:
        name, value = (f"{_text(item[0])}: ", item[1]) if items.named else ("", item)
        yield f"{before}\n    {name}{_text(value, 4)}"
        before = ","
    yield f"{opening}{closing}" if before == opening else f"\n  {closing}"


def _text(value: object, indent: int = 0) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    # Line feeds within texts are escaped, so that these begin lines.
    return text.replace("\n", "\n" + " " * indent)
