"""Checks groups before anything is judged, and drops results that a retriever returned twice.

Nothing here looks into texts; the server does, chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from judged._convert.groups import check_group
from judged.errors import InvalidArgument
from judged.types import QueryGroup


def distinct_groups(groups: Sequence[QueryGroup], *, strict: bool) -> list[QueryGroup]:
    """Return the groups without repeated results. Raises InvalidArgument with the field's path.

    The same id with the same text is a repeat, of which the first is kept; the same id with
    another text is another piece of a document, and stays.
    """
    if not groups:
        raise InvalidArgument.of_field("groups", "must hold at least one group")
    places: dict[str, int] = {}
    for index, group in enumerate(groups):
        path = f"groups[{index}]"
        _check_group(group, path)
        if not group.query_id:
            raise InvalidArgument.of_field(f"{path}.query_id", "must be set")
        first = places.setdefault(group.query_id, index)
        if first != index:
            raise InvalidArgument.of_field(
                f"{path}.query_id", f"is that of groups[{first}].query_id again"
            )
    ranks = [_distinct_ranks(group, index, strict) for index, group in enumerate(groups)]
    return [
        group if kept is None else _at_ranks(group, kept)
        for group, kept in zip(groups, ranks, strict=True)
    ]


def distinct_ranks(group: QueryGroup) -> Sequence[int]:
    """Return the ranks, from 0, of a group's results that repeat no earlier one."""
    kept = _distinct_ranks(group, 0, strict=False)
    return range(group.n_retrieved) if kept is None else kept


def _check_group(group: QueryGroup, path: str) -> None:
    check_group(group, path)
    if group.relevant_document_ids and group.n_expected:
        rule = "must be empty when relevant_document_ids is set"
        raise InvalidArgument.of_field(f"{path}.expected", rule)
    if group.spans is not None and group.embeddings is not None:
        rule = "embeddings are set too; a group brings one or the other"
        raise InvalidArgument.of_field(f"{path}.spans", rule)
    if group.negatives and (group.spans is not None or group.embeddings is not None):
        brings = "embeddings" if group.spans is None else "spans"
        rule = f"are texts, but this group brings {brings}; send texts, or leave negatives out"
        raise InvalidArgument.of_field(f"{path}.negatives", rule)


def _distinct_ranks(group: QueryGroup, index: int, strict: bool) -> list[int] | None:
    """Return the ranks of the results that repeat no earlier one; None when none does."""
    ids = group.document_ids
    if not ids:
        return None
    content: Sequence[object] = group.retrieved
    if group.spans is not None:
        content = group.spans.retrieved
    keys: Sequence[object] = list(zip(ids, content, strict=True)) if content else ids
    first_places: dict[object, int] = {}
    for place, key in enumerate(keys):
        first = first_places.setdefault(key, place)
        if strict and first != place:
            same = "id and text" if content else "id"
            path = f"groups[{index}].document_ids[{place}]"
            raise InvalidArgument.of_field(path, f"has the {same} of entry {first}")
    kept = list(first_places.values())
    return None if len(kept) == len(keys) else kept


def _at_ranks(group: QueryGroup, kept: Sequence[int]) -> QueryGroup:
    texts, vectors, spans = group.retrieved, group.embeddings, group.spans
    if vectors is not None:
        row = 4 * vectors.dimensions
        rows = (vectors.retrieved[row * place : row * (place + 1)] for place in kept)
        vectors = replace(vectors, retrieved=b"".join(rows))
    return replace(
        group,
        retrieved=[texts[place] for place in kept] if texts else (),
        document_ids=[group.document_ids[place] for place in kept],
        embeddings=vectors,
        spans=spans and replace(spans, retrieved=[spans.retrieved[place] for place in kept]),
    )
