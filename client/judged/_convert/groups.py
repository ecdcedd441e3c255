"""Groups and contexts as callers hand them in, looked at before anything is cut, and written."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from judged._codec import write_at
from judged._inputs import all_texts, need_each
from judged.errors import InvalidArgument, WrongType
from judged.v1 import groups_pb2
from judged.values.groups import Context, QueryGroup

_LISTED = {list, tuple}


def as_groups(groups: Iterable[QueryGroup]) -> list[QueryGroup]:
    """Return groups that are read once. Raises InvalidArgument for what is no group."""
    found: list[QueryGroup] = need_each(groups, "groups", (QueryGroup,), "QueryGroup")
    for index, group in enumerate(found):
        check_group(group, f"groups[{index}]")
    return found


def as_items(items: Iterable[QueryGroup] | Iterable[Context]) -> list[QueryGroup | Context]:
    """Return groups or contexts that are read once. Raises InvalidArgument for what is neither."""
    kinds = (QueryGroup, Context)
    found: list[QueryGroup | Context] = need_each(items, "groups", kinds, "QueryGroup or Context")
    for index, item in enumerate(found):
        if isinstance(item, QueryGroup):
            check_group(item, f"groups[{index}]")
            continue
        for name in ("query", "expected_text", "retrieved_text"):
            if not isinstance(text := getattr(item, name), str):
                rule = f"must be text, not {type(text).__name__}"
                raise WrongType.of_field(f"contexts[{index}].{name}", rule)
    return found


def check_group(group: QueryGroup, path: str) -> None:
    """Raise InvalidArgument for what no message of a group holds, and for ids that can't be cut."""
    if not isinstance(group, QueryGroup):
        raise WrongType.of_field(path, f"must be a QueryGroup, not {type(group).__name__}")
    if not _are_texts(group) or group.metadata is None or group.embeddings or group.spans:
        write_group(group, path)
    n_ids = len(group.document_ids)
    if n_ids and n_ids != group.n_retrieved:
        rule = f"{n_ids} ids for {group.n_retrieved} retrieved; give one each or none"
        raise InvalidArgument.of_field(f"{path}.document_ids", rule)


def _are_texts(group: QueryGroup) -> bool:
    lists = (
        *(group.expected, group.retrieved, group.negatives),
        *(group.document_ids, group.relevant_document_ids),
    )
    if not set(map(type, lists)) <= _LISTED:
        return False
    return all_texts((group.query, group.query_id, *chain.from_iterable(lists)))


def write_group(
    group: QueryGroup, path: str = "groups[0]", **others: object
) -> groups_pb2.QueryGroup:
    """Return the message of a group, with `others` in place of its fields, unset for None.

    Raises InvalidArgument for what none holds.
    """
    if group.grades:  # they say which documents are relevant
        others["relevant_document_ids"] = ()
    return write_at(path, groups_pb2.QueryGroup, group, **others)
