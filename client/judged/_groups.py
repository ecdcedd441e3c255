"""Checks groups and contexts as callers hand them in, before anything of them is cut or sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from judged._inputs import WrongType, all_texts, kind_of, need_each, need_kind, no_id
from judged.embeddings import Embeddings
from judged.errors import InvalidArgument
from judged.golden import Spans
from judged.types import Context, QueryGroup

_LISTS = ("expected", "retrieved", "document_ids", "relevant_document_ids", "negatives")
_PARTS = {"embeddings": Embeddings, "spans": Spans}
_LISTED = {list, tuple}
_IDS = {"query_id", "document_ids", "relevant_document_ids"}


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
        elif not all_texts((item.query, item.expected_text, item.retrieved_text)):
            _check_texts(_of_context(item), f"contexts[{index}]")
    return found


def check_group(group: QueryGroup, path: str) -> None:
    """Raise InvalidArgument, with the path of the field, for what no message of a group holds."""
    if not isinstance(group, QueryGroup):
        raise WrongType.of_field(path, f"must be a QueryGroup, not {type(group).__name__}")
    for name, kind in _PARTS.items():
        part = getattr(group, name)
        if part is not None and not isinstance(part, kind):
            need_kind(part, f"{path}.{name}", kind, f"{kind.__name__}")
    need_kind(group.metadata, f"{path}.metadata", Mapping, "a mapping of names to texts")
    if not _are_texts(group):
        _check_texts(_of_group(group, path), path)
    n_ids = len(group.document_ids)
    if n_ids and n_ids != group.n_retrieved:
        rule = f"{n_ids} ids for {group.n_retrieved} retrieved; give one each or none"
        raise InvalidArgument.of_field(f"{path}.document_ids", rule)


def unfit(group: QueryGroup, path: str, problem: Exception) -> InvalidArgument:
    """Return an error that names the first text of a group that UTF-8 can't carry."""
    for name, text in _of_group(group, path):
        try:
            str(text).encode()
        except UnicodeEncodeError as error:
            rule = f"holds a lone surrogate at character {error.start}, which UTF-8 can't carry"
            return InvalidArgument.of_field(f"{path}.{name}", rule)
    return InvalidArgument.of_field(path, str(problem))


def _are_texts(group: QueryGroup) -> bool:
    lists = (
        *(group.expected, group.retrieved, group.negatives),
        *(group.document_ids, group.relevant_document_ids),
    )
    if not set(map(type, lists)) <= _LISTED:
        return False
    return all_texts((group.query, group.query_id, *chain.from_iterable(lists)))


def _of_group(group: QueryGroup, path: str) -> Iterator[tuple[str, object]]:
    yield "query_id", group.query_id
    yield "query", group.query
    for name in _LISTS:
        values = getattr(group, name)
        if not isinstance(values, list | tuple):
            rule = f"must be a list of texts, not {kind_of(values)}"
            raise WrongType.of_field(f"{path}.{name}", rule)
        yield from ((f"{name}[{index}]", value) for index, value in enumerate(values))


def _of_context(context: Context) -> Iterator[tuple[str, object]]:
    for name in ("query", "expected_text", "retrieved_text"):
        yield name, getattr(context, name)


def _check_texts(texts: Iterable[tuple[str, object]], path: str) -> None:
    for name, text in texts:
        if not isinstance(text, str):
            is_id = name.partition("[")[0] in _IDS
            rule = no_id(text) if is_id else f"must be text, not {type(text).__name__}"
            raise WrongType.of_field(f"{path}.{name}", rule)
