"""Groups and contexts as callers hand them in, looked at before anything is cut, and written."""

from __future__ import annotations

from itertools import chain

from judged._codec import write_at
from judged._inputs import all_texts, need_kind
from judged.errors import InvalidArgument
from judged.v1 import groups_pb2
from judged.values.groups import QueryGroup

_LISTED = {list, tuple}


def checked_group(group: QueryGroup, index: int) -> QueryGroup:
    """Return a group that can be sent and cut. Raises InvalidArgument with its path."""
    path = f"groups[{index}]"
    need_kind(group, path, QueryGroup, "a QueryGroup")
    if not _are_texts(group) or group.metadata is None or group.embeddings or group.spans:
        write_group(group, path)
    n_ids = len(group.document_ids)
    if n_ids and n_ids != group.n_retrieved:
        rule = f"{n_ids} ids for {group.n_retrieved} retrieved; give one each or none"
        raise InvalidArgument.of_field(f"{path}.document_ids", rule)
    return group


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
