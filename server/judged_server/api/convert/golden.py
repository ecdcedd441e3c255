"""Between golden-set messages and the domain: spans, negatives and metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from judged.v1 import groups_pb2, judge_service_pb2

from judged_server import errors
from judged_server.domain import GroupSpans, QueryGroup, Spans
from judged_server.errors import InvalidField
from judged_server.settings import Limits

MAX_METADATA_KEYS = 64
"""The most keys that one query's metadata may have,"""
MAX_METADATA_BYTES = 1024
"""and the most bytes of UTF-8 in a key, and in a value."""


def read_spans(
    message: groups_pb2.GroupSpans, limits: Limits, path: str, texts: tuple[int, int]
) -> GroupSpans:
    """Return the spans of a group with as many texts, or none. Raises InvalidField with paths."""
    files: dict[str, int] = {}
    return GroupSpans(
        _read_side(message.expected, files, limits, f"{path}.expected", texts[0]),
        _read_side(message.retrieved, files, limits, f"{path}.retrieved", texts[1]),
    )


def _read_side(
    messages: Sequence[groups_pb2.Span],
    files: dict[str, int],
    limits: Limits,
    path: str,
    texts: int,
) -> Spans:
    if texts and len(messages) != texts:
        raise errors.InvalidField(path, f"{len(messages)} spans for {texts} texts")
    numbers = []
    for index, message in enumerate(messages):
        file = message.file
        if len(file) > limits.surely_fits:
            limits.check_text(file, f"{path}[{index}].file")
        numbers.append(files.setdefault(file, len(files)))
    starts = np.array([message.start for message in messages], np.uint64)
    ends = np.array([message.end for message in messages], np.uint64)
    empty = np.flatnonzero(ends <= starts)
    if len(empty):
        first = int(empty[0])
        rule = f"must be above start, which is {starts[first]}; the end is not part of the span"
        raise errors.InvalidField(f"{path}[{first}].end", rule)
    return Spans(np.array(numbers, np.int64), starts, ends)


def check_golden(group: QueryGroup, path: str) -> None:
    """Refuse golden references that contradict each other, at the field's path."""
    if group.spans is not None and group.embeddings is not None:
        rule = "embeddings are set too; a group brings one or the other"
        raise errors.InvalidField(f"{path}.spans", rule)
    if group.negatives and (group.spans is not None or group.embeddings is not None):
        brings = "embeddings" if group.spans is None else "spans"
        rule = f"are texts, but this group brings {brings}; send texts, or leave negatives out"
        raise errors.InvalidField(f"{path}.negatives", rule)


def read_metadata(entries: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the metadata of a query. Raises LimitExceeded at `path` or `path["key"]`."""
    if len(entries) > MAX_METADATA_KEYS:
        raise errors.LimitExceeded(path, "keys", MAX_METADATA_KEYS, len(entries))
    metadata = dict(entries)
    for key, value in metadata.items():
        for text in (key, value):
            # A character is at most four bytes, so that short ones need no look.
            if len(text) > MAX_METADATA_BYTES // 4:
                size = len(text.encode())
                if size > MAX_METADATA_BYTES:
                    entry = f'{path}["{key[:80]}"]'
                    raise errors.LimitExceeded(entry, "bytes of UTF-8", MAX_METADATA_BYTES, size)
    return metadata


def read_query_metadata(
    messages: Sequence[judge_service_pb2.QueryMetadata],
    query_ids: Sequence[str],
    also_known: Sequence[str] = (),
) -> list[Mapping[str, str]]:
    """Return the metadata of each query in `query_ids`, in that order; empty if there is none.

    `also_known` are queries of the request that are not measured. Raises InvalidField at
    `metadata[i].query_id` for one that the request does not have or that was there before, and as
    `read_metadata` does.
    """
    places: dict[str, int] = {}
    known = set(query_ids).union(also_known) if messages else set()
    for i, message in enumerate(messages):
        if message.query_id not in known:
            raise InvalidField(f"metadata[{i}].query_id", "is the id of no query of this request")
        first = places.setdefault(message.query_id, i)
        if first != i:
            rule = f"is that of metadata[{first}].query_id again"
            raise InvalidField(f"metadata[{i}].query_id", rule)
    read = [read_metadata(m.metadata, f"metadata[{i}].metadata") for i, m in enumerate(messages)]
    nothing: Mapping[str, str] = {}
    return [read[places[q]] if q in places else nothing for q in query_ids]
