"""Converts the messages of judging: groups, answers, judges and rubrics in, verdicts out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
from google.protobuf.message import Message
from judged._codec import write_fields
from judged.v1 import groups_pb2, metrics_pb2, scores_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.error_reason_pb2 import ErrorReason
from judged.values.choices import Status
from judged.values.groups import VerdictDetail, VerdictError
from judged.values.judges import JudgeIdentity
from judged.values.scores import AnswerItem, AnswerScore

from judged_server.api.columns import read_columns
from judged_server.api.requests import check, read
from judged_server.api.status import fault_code
from judged_server.domain import (
    BoolArray,
    Group,
    ScoreColumns,
    Sides,
    VerdictFault,
    Verdicts,
    check_ids,
    check_limit,
    check_unique,
    need,
    need_length,
)
from judged_server.errors import InvalidField
from judged_server.judges.base import group_cost
from judged_server.scheduling.concurrency import ITEM_BYTES, run_by_size
from judged_server.settings import MAX_ID_BYTES, Limits


def check_texts(value: Any, limits: Limits, path: str) -> None:  # noqa: ANN401 - a dataclass
    """Raise LimitExceeded for an id or a text of a value that is too long."""
    for part in fields(value):
        given, at = getattr(value, part.name), f"{path}.{part.name}"
        if isinstance(given, list | tuple):
            limits.check_texts(given, at)
        elif isinstance(given, str):
            limits.check_text(given, at, MAX_ID_BYTES if part.name.endswith("_id") else 0)


_TEXTS = "are texts, but this group brings {}; send texts, or leave negatives out"
_BY_ID = "only Evaluate matches by document id"
_OF_EVALUATE = {
    "relevant_document_ids": _BY_ID,
    "grades": _BY_ID,
    "negatives": "only Evaluate reports on negatives; judge them as expected texts of another "
    "group",
}
"""The fields of a group that BatchJudge and StreamJudge reject."""
SIDES = ("expected", "retrieved")
"""The fields of a group's texts, and of the embeddings or spans in their place."""
_COLUMNS = {
    "status": "statuses",
    "source": "sources",
    "flags": "flags",
    "agreement": "agreements",
    "probability": "probabilities",
    "stage": "stages",
}
"""The optional columns of verdicts, by field of the message."""
MAX_METADATA_KEYS = 64
"""The most keys in one query's metadata."""
MAX_METADATA_BYTES = 1024
"""The most bytes of UTF-8 in a key, and in a value, of metadata."""


def read_groups(
    messages: Sequence[groups_pb2.QueryGroup],
    limits: Limits,
    field: str = "groups",
    first: int = 0,
    first_result: int = 0,
) -> list[Group]:
    """Return the groups of a request. Raises InvalidField and LimitExceeded with paths.

    `first` is the place of the first group in `field`; `first_result` that of its first result,
    above 0 where earlier messages had its earlier results.
    """
    limits.check_groups(len(messages), field)
    groups, contexts = [], 0
    for i, message in enumerate(messages, first):
        group = _read_group(message, limits, f"{field}[{i}]", first_result)
        first_result = 0
        groups.append(group)
        contexts += len(group.retrieved) if group.open_ended else group.n_contexts
        if group.negatives:  # results are judged against them too
            contexts += group.n_retrieved * len(group.negatives)
        group_cost(group)  # computed here because this may run on a thread; the group keeps it
    limits.check_contexts(contexts, field)
    return groups


def refuse_evaluation(messages: Sequence[groups_pb2.QueryGroup], field: str = "groups") -> None:
    """Raise InvalidField for fields that only Evaluate takes."""
    for index, message in enumerate(messages):
        # Most groups have none of these, and ListFields takes ten times as long as this check.
        if message.negatives or message.relevant_document_ids or message.grades:
            check_unset(message, _OF_EVALUATE, f"{field}[{index}]")


def check_unset(message: Message, rules: Mapping[str, str], path: str = "") -> None:
    """Raise InvalidField for the first field of a message that is set and has a rule here."""
    for each, _ in message.ListFields():
        if (rule := rules.get(each.name)) is not None:
            raise InvalidField(f"{path}.{each.name}".lstrip("."), rule)


def _read_group(
    message: groups_pb2.QueryGroup, limits: Limits, path: str, first_result: int
) -> Group:
    # A slice takes two thirds of the time of list().
    group = Group(
        message.query_id,
        message.query,
        message.expected[:],
        message.retrieved[:],
        message.document_ids[:],
        message.relevant_document_ids[:],
        negatives=message.negatives[:],
    )
    limits.check_text(group.query, f"{path}.query")
    limits.check_texts(group.expected, f"{path}.expected")
    limits.check_texts(group.retrieved, f"{path}.retrieved", first_result)
    limits.check_texts(group.negatives, f"{path}.negatives")
    limits.check_text(group.query_id, f"{path}.query_id", MAX_ID_BYTES)
    most, relevant = MAX_ID_BYTES, group.relevant_document_ids
    limits.check_texts(group.document_ids, f"{path}.document_ids", first_result, most)
    limits.check_texts(relevant, f"{path}.relevant_document_ids", 0, most)
    if message.grades:
        limits.check_texts([*message.grades], f"{path}.grades", 0, most)
        group.grades, group.relevant_document_ids = read_grades(message, path)
    if message.metadata:
        group.metadata = read_metadata(message.metadata, f"{path}.metadata")
    texts = len(group.expected), len(group.retrieved)
    if message.HasField("embeddings"):
        rule = "embeddings are set too; a group brings one or the other"
        check_unset(message, {"spans": rule, "negatives": _TEXTS.format("embeddings")}, path)
        at = f"{path}.embeddings"
        group.embeddings = read_embeddings(message.embeddings, limits, at, texts)
    if message.HasField("spans"):
        check_unset(message, {"negatives": _TEXTS.format("spans")}, path)
        group.spans = read_spans(message.spans, limits, f"{path}.spans", texts)
    if group.document_ids:
        things = "retrieved; give one each or none"
        need_length(group.document_ids, group.n_retrieved, f"{path}.document_ids", things)
    if group.by_id and group.n_expected:
        name = "grades" if group.grades else "relevant_document_ids"
        raise InvalidField(f"{path}.expected", f"must be empty when {name} is set")
    return group


def read_grades(
    message: groups_pb2.QueryGroup | metrics_pb2.JudgedRanking, path: str
) -> tuple[dict[str, int], Sequence[str]]:
    """Return the grades in a message by document id, and the ids of the relevant documents."""
    rule = "must be empty when grades is set, which says which documents are relevant"
    check_unset(message, {"relevant_document_ids": rule}, path)
    grades = dict(message.grades)
    return grades, [name for name, grade in grades.items() if grade > 0]


def read_spans(
    message: groups_pb2.GroupSpans, limits: Limits, path: str, texts: tuple[int, int]
) -> Sides:
    """Return a group's spans, as many as it has `texts` if any. Raises InvalidField with paths."""
    files: dict[str, int] = {}
    sides = []
    for name, n in zip(SIDES, texts, strict=True):
        side, at = getattr(message, name), f"{path}.{name}"
        need_length(side, n or len(side), at, "texts")
        for i, span in enumerate(side):
            limits.check_text(span.file, f"{at}[{i}].file")
            rule = f"must be above start, which is {span.start}; the end is not part of the span"
            need(span.end > span.start, f"{at}[{i}].end", rule)
        rows = [(files.setdefault(s.file, len(files)), s.start, s.end) for s in side]
        sides.append(np.array(rows, np.uint64).reshape(-1, 3))
    return Sides(*sides)


def read_metadata(entries: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the metadata of a query. Raises LimitExceeded at `path` or `path["key"]`."""
    check_limit(len(entries), MAX_METADATA_KEYS, "keys", path)
    for key, value in entries.items():
        size = max(len(key.encode()), len(value.encode()))
        check_limit(size, MAX_METADATA_BYTES, "bytes of UTF-8", f'{path}["{key[:80]}"]')
    return dict(entries)


def read_query_metadata(
    messages: Sequence[pb.QueryMetadata],
    query_ids: Sequence[str],
    also_known: Sequence[str] = (),
) -> list[Mapping[str, str]]:
    """Return the metadata of each query in `query_ids`, in that order; empty if it has none.

    `also_known` are queries of the request that are not measured. Raises InvalidField at
    `metadata[i].query_id` for an unknown or repeated id, and as `read_metadata` does.
    """
    ids = [message.query_id for message in messages]
    check_ids(ids, {*query_ids, *also_known}, "metadata[{}].query_id")
    found = {
        message.query_id: read_metadata(message.metadata, f"metadata[{i}].metadata")
        for i, message in enumerate(messages)
    }
    return [found.get(query_id, {}) for query_id in query_ids]


def read_embeddings(
    message: groups_pb2.GroupEmbeddings,
    limits: Limits,
    path: str,
    texts: tuple[int, int] = (0, 0),
) -> Sides:
    """Return a group's vectors, as many as it has `texts` if any. Raises InvalidField by path."""
    dimensions, most = message.dimensions, limits.max_embedding_dimensions
    check(message, path)
    check_limit(dimensions, most, "dimensions", f"{path}.dimensions")
    sides = []
    for name, n in zip(SIDES, texts, strict=True):
        raw, at = getattr(message, name), f"{path}.{name}"
        rule = f"{len(raw)} bytes are not whole rows of {dimensions} float32 values"
        need(len(raw) % (4 * dimensions) == 0, at, rule)
        matrix = np.frombuffer(raw, "<f4").reshape(-1, dimensions)
        need_length(matrix, n or len(matrix), at, "texts")
        need(bool(np.isfinite(matrix).all()), at, "holds a value that is not finite")
        sides.append(matrix)
    return Sides(*sides)


def read_answers(
    messages: Sequence[scores_pb2.AnswerItem], rubrics: int, limits: Limits, field: str = "items"
) -> list[AnswerItem]:
    """Return the items of a request with `rubrics` rubrics. Raises InvalidField with paths."""
    limits.check_groups(len(messages), field, "item")
    limits.check_contexts(len(messages) * rubrics, field)
    items = []
    for index, message in enumerate(messages):
        item = read(AnswerItem, message, f"{field}[{index}]")
        check_texts(item, limits, f"{field}[{index}]")
        items.append(item)
    check_unique([item.item_id for item in items], field + "[{}].item_id")
    return items


@lru_cache(maxsize=256)
def write_identity(identity: JudgeIdentity) -> verdicts_pb2.JudgeIdentity:
    """Return the message of a judge's identity; it is shared, so it must not be changed."""
    return write_fields(verdicts_pb2.JudgeIdentity, identity)


async def take_groups(
    messages: Sequence[groups_pb2.QueryGroup],
    size: int,
    limits: Limits,
    field: str,
    first: int = 0,
    first_result: int = 0,
) -> list[Group]:
    """Return the groups of a message of `size` bytes. Raises as `read_groups` does."""
    size += ITEM_BYTES * len(messages)
    return await run_by_size(size, read_groups, messages, limits, field, first, first_result)


def write_verdicts(verdicts: Verdicts) -> verdicts_pb2.VerdictColumns:
    """Return the message of verdicts, without columns that hold only their default."""
    columns = verdicts.columns
    optional: dict[str, Any] = {
        field: getattr(columns, name).tolist()
        for field, name in _COLUMNS.items()
        if columns.tells(name)
    }
    return verdicts_pb2.VerdictColumns(
        relevant=verdicts.relevant.tolist(),
        score=columns.scores.tolist(),
        group_offsets=verdicts.offsets,
        errors=map(write_fault, columns.faults),
        details=map(write_detail, columns.details, columns.details.values()),
        **optional,
    )


def write_detail(index: int, detail: VerdictDetail) -> verdicts_pb2.VerdictDetail:
    """Return the message of how the verdict at `index` came about."""
    samples = [
        write_fields(verdicts_pb2.VerdictSample, each, reason=reason_number(each.reason))
        for each in detail.samples
    ]
    return write_fields(verdicts_pb2.VerdictDetail, detail, index=index, samples=samples)


def reason_number(name: str) -> ErrorReason.ValueType:
    """Return the contract's enum value for a domain reason."""
    return ErrorReason.Value(f"ERROR_REASON_{name or 'UNSPECIFIED'}")


def write_fault(fault: VerdictFault | VerdictError) -> verdicts_pb2.VerdictError:
    """Return the message of one missing verdict's reason."""
    reason, code = reason_number(fault.reason), fault_code(fault.reason)
    return write_fields(verdicts_pb2.VerdictError, fault, reason=reason, code=code)


def read_verdicts(
    message: verdicts_pb2.VerdictColumns, sizes: Sequence[int], field: str
) -> Verdicts:
    """Return verdicts that a caller sends back, for groups of `sizes` contexts.

    Decisions are not computed again: the threshold was applied when they were made. Raises
    InvalidField when a column has a wrong length or a value that no reply has.
    """
    offsets = list(accumulate(sizes, initial=0))
    columns = read_columns(message, field, contexts=offsets[-1])
    agree = list(message.group_offsets) in ([], offsets)
    need(agree, f"{field}.group_offsets", "disagree with the sizes of the rankings")
    relevant: BoolArray = columns["relevant"].astype(np.bool_)
    statuses, flags = (
        columns[name].astype(np.uint8) if len(columns[name]) else None
        for name in ("status", "flags")
    )
    rule = "true where the status is not VERDICT_STATUS_OK"
    missing = statuses is not None and bool((relevant & (statuses != Status.OK)).any())
    need(not missing, f"{field}.relevant", rule)
    scores = columns["score"] if len(columns["score"]) else relevant.astype(np.float64)
    return Verdicts(relevant, ScoreColumns(scores, statuses, flags), offsets)


def write_score(score: AnswerScore) -> scores_pb2.AnswerScore:
    """Return the message of one score of an answer; unknown values stay unset."""
    error = None if score.error is None else write_fault(score.error)
    return write_fields(scores_pb2.AnswerScore, score, error=error)
