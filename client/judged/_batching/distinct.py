"""Results that a retriever returned twice, as the server drops them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from judged.errors import InvalidArgument
from judged.values.groups import QueryGroup


def distinct_ranks(group: QueryGroup, path: str = "", *, strict: bool = False) -> Sequence[int]:
    """Return the ranks, from 0, of a group's results that repeat no earlier one.

    The same id with the same text is a repeat, of which the first is kept; the same id with
    another text is another piece of a document, and stays. With `strict` a repeat raises
    InvalidArgument that names its place under `path`.
    """
    ids = group.document_ids
    if not ids:
        return range(group.n_retrieved)
    content: Sequence[object] = group.retrieved
    if group.spans is not None:
        content = group.spans.retrieved
    keys: Sequence[object] = list(zip(ids, content, strict=True)) if content else ids
    first_places: dict[object, int] = {}
    for place, key in enumerate(keys):
        first = first_places.setdefault(key, place)
        if strict and first != place:
            same = "id and text" if content else "id"
            rule = f"has the {same} of entry {first}"
            raise InvalidArgument.of_field(f"{path}.document_ids[{place}]", rule)
    kept = list(first_places.values())
    return range(len(keys)) if len(kept) == len(keys) else kept


def at_ranks(group: QueryGroup, ranks: Sequence[int]) -> QueryGroup:
    """Return a group with these of its results only, in this order."""
    if isinstance(ranks, range) and len(ranks) == group.n_retrieved:
        return group
    texts, vectors, spans, ids = group.retrieved, group.embeddings, group.spans, group.document_ids
    if vectors is not None:
        row = 4 * vectors.dimensions
        rows = (vectors.retrieved[row * place : row * (place + 1)] for place in ranks)
        vectors = replace(vectors, retrieved=b"".join(rows))
    return replace(
        group,
        retrieved=[texts[place] for place in ranks] if texts else (),
        document_ids=[ids[place] for place in ranks] if ids else (),
        embeddings=vectors,
        spans=spans and replace(spans, retrieved=[spans.retrieved[place] for place in ranks]),
    )


def against_negatives(groups: Iterable[QueryGroup]) -> list[QueryGroup]:
    """Return groups that ask which results match the negatives, of those that have some."""
    return [
        QueryGroup(group.query, group.negatives, group.retrieved)
        for group in groups
        if group.negatives
    ]


def distinct_group(group: QueryGroup) -> QueryGroup:
    """Return a group without repeated results."""
    return at_ranks(group, distinct_ranks(group))
