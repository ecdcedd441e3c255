"""Checks groups before anything is judged, and drops results that a retriever returned twice.

Owns the rules that Evaluate has for its groups, so that the evaluator has the same ones. Nothing
here looks into texts; the server does, chunk by chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
        if not group.query_id:
            raise InvalidArgument.of_field(f"{path}.query_id", "must be set")
        first = places.setdefault(group.query_id, index)
        if first != index:
            raise InvalidArgument.of_field(
                f"{path}.query_id", f"is that of groups[{first}].query_id again"
            )
        _check_group(group, path)
    return [_without_repeats(group, index, strict) for index, group in enumerate(groups)]


def _check_group(group: QueryGroup, path: str) -> None:
    for name in ("expected", "retrieved", "document_ids", "relevant_document_ids"):
        if isinstance(getattr(group, name), str):
            raise InvalidArgument.of_field(
                f"{path}.{name}", "must be a list of texts, not one text"
            )
    n_ids = len(group.document_ids)
    if n_ids and n_ids != group.n_retrieved:
        rule = f"{n_ids} ids for {group.n_retrieved} retrieved; give one each or none"
        raise InvalidArgument.of_field(f"{path}.document_ids", rule)
    if group.relevant_document_ids and group.n_expected:
        rule = "must be empty when relevant_document_ids is set"
        raise InvalidArgument.of_field(f"{path}.expected", rule)


def _without_repeats(group: QueryGroup, index: int, strict: bool) -> QueryGroup:
    ids, texts = group.document_ids, group.retrieved
    if not ids:
        return group
    keys: Sequence[object] = list(zip(ids, texts, strict=True)) if texts else ids
    first_places: dict[object, int] = {}
    for place, key in enumerate(keys):
        first = first_places.setdefault(key, place)
        if strict and first != place:
            same = "id and text" if texts else "id"
            path = f"groups[{index}].document_ids[{place}]"
            raise InvalidArgument.of_field(path, f"has the {same} of entry {first}")
    kept = list(first_places.values())
    if len(kept) == len(keys):
        return group
    vectors = group.embeddings
    if vectors is not None:
        row = 4 * vectors.dimensions
        rows = (vectors.retrieved[row * place : row * (place + 1)] for place in kept)
        vectors = replace(vectors, retrieved=b"".join(rows))
    return replace(
        group,
        retrieved=[texts[place] for place in kept] if texts else (),
        document_ids=[ids[place] for place in kept],
        embeddings=vectors,
    )
