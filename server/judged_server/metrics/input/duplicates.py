"""Results that a retriever returned twice."""

from __future__ import annotations

from collections.abc import Sequence

from judged_server.errors import InvalidField


def distinct_results(
    document_ids: Sequence[str], texts: Sequence[object] | None, *, field: str, strict: bool
) -> list[int] | None:
    """Return the places to keep of one query's results, or None when nothing repeats.

    `texts` is parallel to `document_ids`: texts, or what stands for them; None means that the id
    alone tells documents apart.
    With `strict` the first duplicate, at place j, raises InvalidField at `field[j]`.
    """
    keys: Sequence[object]
    keys = document_ids if texts is None else list(zip(document_ids, texts, strict=True))
    first_places: dict[object, int] = {}
    for place, key in enumerate(keys):
        first = first_places.setdefault(key, place)
        if strict and first != place:
            same = "id" if texts is None else "id and text"
            raise InvalidField(f"{field}[{place}]", f"has the {same} of entry {first}")
    kept = list(first_places.values())
    return None if len(kept) == len(document_ids) else kept
