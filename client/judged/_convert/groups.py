"""Checks groups and contexts as callers hand them in, before anything is cut, and writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from itertools import chain

from judged._inputs import all_texts, kind_of, need_each, need_kind, need_text, no_id, no_utf8
from judged.errors import InvalidArgument, WrongType
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.values.groups import Context, Embeddings, QueryGroup, Span, Spans

_LISTS = ("expected", "retrieved", "document_ids", "relevant_document_ids", "negatives")
_PARTS = {"embeddings": Embeddings, "spans": Spans}
_LISTED = {list, tuple}
_LARGEST = 2**64
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
            return InvalidArgument.of_field(f"{path}.{name}", no_utf8(error))
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


def write_group(
    group: QueryGroup, path: str = "groups[0]", *, checked: bool = False
) -> groups_pb2.QueryGroup:
    """Return the message of a group. Raises InvalidArgument for text that UTF-8 can't hold."""
    if not checked:  # protobuf takes one text letter by letter, and bytes for text
        check_group(group, path)
    try:
        message = groups_pb2.QueryGroup(
            query_id=group.query_id,
            query=group.query,
            expected=group.expected,
            retrieved=group.retrieved,
            document_ids=group.document_ids,
            relevant_document_ids=() if group.grades else group.relevant_document_ids,
            grades=group.grades,
            negatives=group.negatives,
        )
    except (UnicodeEncodeError, TypeError, ValueError) as problem:
        raise unfit(group, path, problem) from None
    write_golden(message, group, path)
    return message


def write_golden(message: groups_pb2.QueryGroup, group: QueryGroup, path: str) -> None:
    """Set what a group brings beside texts. Raises InvalidArgument with the field's path."""
    if group.embeddings is not None:
        write_embeddings(message.embeddings, group.embeddings)
    if group.spans is not None:
        _write_spans(message.spans, group.spans, f"{path}.spans")
    _fill_metadata(message.metadata, group.metadata, f"{path}.metadata")


def write_metadata(
    request: pb.ComputeMetricsRequest, metadata: Mapping[str, Mapping[str, str]]
) -> None:
    """Add the metadata of queries. Raises InvalidArgument with the field's path."""
    for i, (query_id, known) in enumerate(metadata.items()):
        try:
            entry = request.metadata.add(query_id=query_id)
        except (TypeError, ValueError) as problem:
            where = f"metadata[{i}].query_id"
            raise InvalidArgument.of_field(where, _reason(problem)) from None
        _fill_metadata(entry.metadata, known, f"metadata[{i}].metadata")


def _fill_metadata(
    message: MutableMapping[str, str], metadata: Mapping[str, str], path: str
) -> None:
    for key, value in metadata.items():
        try:
            message[key] = value
        except (TypeError, ValueError) as problem:
            where = f'{path}["{str(key)[:80]}"]'
            need_text(key, f"{where}, the key")
            need_text(value, where)
            raise InvalidArgument.of_field(where, _reason(problem)) from None


def write_embeddings(message: groups_pb2.GroupEmbeddings, embeddings: Embeddings) -> None:
    """Set the vectors of a group."""
    message.dimensions = embeddings.dimensions
    message.expected = embeddings.expected
    message.retrieved = embeddings.retrieved


def _write_spans(message: groups_pb2.GroupSpans, spans: Spans, path: str) -> None:
    message.SetInParent()
    _write_side(message.expected, spans.expected, f"{path}.expected")
    _write_side(message.retrieved, spans.retrieved, f"{path}.retrieved")


def _write_side(messages: object, spans: Sequence[Span], path: str) -> None:
    add = getattr(messages, "add")  # noqa: B009 - repeated fields have no common type
    for index, span in enumerate(spans):
        try:
            add(file=span.file, start=span.start, end=span.end)
        except (TypeError, ValueError) as problem:
            where = f"{path}[{index}]"
            for name in ("start", "end"):
                value = getattr(span, name)
                if isinstance(value, int) and not 0 <= value < _LARGEST:
                    rule = "must be a whole number from 0 to 2^64 - 1"
                    raise InvalidArgument.of_field(f"{where}.{name}", rule) from None
            raise InvalidArgument.of_field(where, _reason(problem)) from None


def _reason(problem: Exception) -> str:
    """Return what is wrong with a value, without quoting texts."""
    if isinstance(problem, UnicodeEncodeError):
        return no_utf8(problem)
    return "holds a value of the wrong type"
