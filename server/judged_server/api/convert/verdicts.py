"""Between the messages of verdicts and the domain.

A reply is put together as bytes, without making the messages. What is rare in it, or the same in
many, protobuf writes: a field that follows is merged by whoever reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final

import numpy as np
from judged._codec import write_fields
from judged.v1 import verdicts_pb2
from judged.v1.error_reason_pb2 import ErrorReason
from judged.v1.judge_service_pb2 import BatchJudgeResponse
from judged.v1.verdicts_pb2 import VerdictColumns
from judged.values.choices import Flag, Source, Status
from judged.values.judges import JudgeIdentity
from judged.values.verdicts import VerdictCounts

from judged_server import errors
from judged_server.api.convert.judging import write_identity
from judged_server.api.status import fault_code
from judged_server.domain import (
    BoolArray,
    ByteArray,
    FloatArray,
    ScoreColumns,
    VerdictDetail,
    VerdictFault,
    Verdicts,
    counts_of,
)

_LENGTH_DELIMITED: Final = 2
_ONE_BYTE: Final = 127
"""A number up to this is one byte on the wire."""

_DOUBLE: Final = np.dtype("<f8")
_BYTE: Final = np.dtype(np.uint8)

_VERDICTS: Final = BatchJudgeResponse.VERDICTS_FIELD_NUMBER
_RELEVANT: Final = VerdictColumns.RELEVANT_FIELD_NUMBER
_SCORE: Final = VerdictColumns.SCORE_FIELD_NUMBER
_STATUS: Final = VerdictColumns.STATUS_FIELD_NUMBER
_SOURCE: Final = VerdictColumns.SOURCE_FIELD_NUMBER
_FLAGS: Final = VerdictColumns.FLAGS_FIELD_NUMBER
_OFFSETS: Final = VerdictColumns.GROUP_OFFSETS_FIELD_NUMBER
_AGREEMENT: Final = VerdictColumns.AGREEMENT_FIELD_NUMBER
_STAGE: Final = VerdictColumns.STAGE_FIELD_NUMBER
_PROBABILITY: Final = VerdictColumns.PROBABILITY_FIELD_NUMBER


def reply_bytes(verdicts: Verdicts, identity: JudgeIdentity) -> bytes:
    """Return the BatchJudgeResponse that carries verdicts and tells which judge gave them."""
    columns, relevant = verdicts.columns, verdicts.relevant.tobytes()
    parts, usage = _column_parts(verdicts, relevant), columns.usage
    parts = [_head(_VERDICTS, sum(map(len, parts))), *parts, _judge_field(identity)]
    if columns.statuses is None and columns.flags is None:
        parts.append(_counts_field(len(relevant), relevant.count(1)))
    else:
        parts.append(
            BatchJudgeResponse(counts=write_counts(counts_of(verdicts))).SerializeToString()
        )
    if usage is not None:
        parts.append(write_fields(BatchJudgeResponse, usage=usage).SerializeToString())
    return b"".join(parts)


def _column_parts(verdicts: Verdicts, relevant: bytes) -> list[bytes]:
    """Return the VerdictColumns of verdicts; columns that say the same of all are left out.

    `relevant` is a byte a context, 0 or 1.
    """
    columns, sources, offsets = verdicts.columns, verdicts.sources, verdicts.offsets
    n = len(relevant)
    parts = [_head(_RELEVANT, n), relevant, _head(_SCORE, 8 * n), _doubles(columns.scores)]
    # A status, a source and a flag are at most 127, and so are their own bytes on the wire.
    if columns.statuses is not None and (columns.statuses != Status.OK).any():
        parts += _head(_STATUS, n), _bytes(columns.statuses)
    if sources is not None and (sources != Source.COMPUTED).any():
        parts += _head(_SOURCE, n), _bytes(sources)
    if columns.flags is not None and columns.flags.any():
        parts += _head(_FLAGS, n), _bytes(columns.flags)
    if offsets[-1] <= _ONE_BYTE:
        parts += _head(_OFFSETS, len(offsets)), bytes(offsets)
    else:
        parts.append(VerdictColumns(group_offsets=offsets).SerializeToString())
    if columns.agreements is not None:
        parts += _head(_AGREEMENT, 8 * n), _doubles(columns.agreements)
    if columns.probabilities is not None:
        parts += _head(_PROBABILITY, 8 * n), _doubles(columns.probabilities)
    if columns.stages is not None:
        parts += _head(_STAGE, n), _bytes(columns.stages)
    if columns.faults or columns.details:
        rest = VerdictColumns(
            errors=map(write_fault, columns.faults), details=map(write_detail, columns.details)
        )
        parts.append(rest.SerializeToString())
    return parts


def write_verdicts(verdicts: Verdicts) -> VerdictColumns:
    """Return the message of verdicts, as a part of other messages."""
    return VerdictColumns.FromString(b"".join(_column_parts(verdicts, verdicts.relevant.tobytes())))


def write_detail(detail: VerdictDetail) -> verdicts_pb2.VerdictDetail:
    """Return the message of how one verdict came about."""
    samples = [
        write_fields(verdicts_pb2.VerdictSample, each, reason=reason_number(each.reason))
        for each in detail.samples
    ]
    return write_fields(verdicts_pb2.VerdictDetail, detail, samples=samples)


def reason_number(name: str) -> ErrorReason.ValueType:
    """Return the value of the contract's enum that a reason of ours stands for."""
    return ErrorReason.Value(f"ERROR_REASON_{name or 'UNSPECIFIED'}")


def write_fault(fault: VerdictFault) -> verdicts_pb2.VerdictError:
    """Return the message of one missing verdict's reason."""
    reason = reason_number(fault.reason)
    code = fault_code(fault.reason)
    return write_fields(verdicts_pb2.VerdictError, fault, reason=reason, code=code)


def write_counts(counts: VerdictCounts) -> verdicts_pb2.VerdictCounts:
    """Return the message of counts."""
    return write_fields(verdicts_pb2.VerdictCounts, counts)


def read_verdicts(
    message: verdicts_pb2.VerdictColumns, sizes: Sequence[int], field: str
) -> Verdicts:
    """Return verdicts that a caller sends back, for groups of `sizes` contexts.

    Decisions are taken as they are: the threshold was applied when they were made. Raises
    InvalidField when a column is of another length or holds a value no reply has.
    """
    offsets = list(accumulate(sizes, initial=0))
    total = offsets[-1]
    relevant = np.array(message.relevant, dtype=np.bool_)
    scores = np.array(message.score, dtype=np.float64)
    statuses = np.array(message.status, dtype=np.int64)
    flags = np.array(message.flags, dtype=np.int64)
    sources = np.array(message.source, dtype=np.int64)
    agreements = np.array(message.agreement, dtype=np.float64)
    for name, column, optional in (
        ("relevant", relevant, False),
        ("score", scores, True),
        ("status", statuses, True),
        ("source", sources, True),
        ("flags", flags, True),
        ("agreement", agreements, True),
    ):
        if len(column) != total and (len(column) or not optional):
            raise errors.InvalidField(
                f"{field}.{name}", f"{len(column)} values for {total} contexts"
            )
    _check_all((scores >= 0) & (scores <= 1), f"{field}.score", "from 0 to 1")
    _check_all((agreements >= 0) & (agreements <= 1), f"{field}.agreement", "from 0 to 1")
    _check_all(
        (statuses >= min(Status)) & (statuses <= max(Status)),
        f"{field}.status",
        f"one of {errors.full_names(Status, 'VerdictStatus')}",
    )
    _check_all(
        (sources >= min(Source)) & (sources <= max(Source)),
        f"{field}.source",
        f"one of {errors.full_names(Source, 'VerdictSource')}",
    )
    _check_all((flags & ~sum(Flag)) == 0, f"{field}.flags", "a sum of known flags")
    if message.group_offsets and list(message.group_offsets) != offsets:
        raise errors.InvalidField(
            f"{field}.group_offsets", "disagree with the sizes of the rankings"
        )
    if len(statuses) and (relevant & (statuses != Status.OK)).any():
        raise errors.InvalidField(
            f"{field}.relevant", "true where the status is not VERDICT_STATUS_OK"
        )
    columns = ScoreColumns(
        scores if len(scores) else relevant.astype(np.float64),
        statuses.astype(np.uint8) if len(statuses) else None,
        flags.astype(np.uint8) if len(flags) else None,
    )
    return Verdicts(relevant, columns, offsets)


def _check_all(good: BoolArray, field: str, rule: str) -> None:
    if not good.all():
        raise errors.InvalidField(f"{field}[{int(np.argmin(good))}]", f"must be {rule}")


@lru_cache(maxsize=4096)
def _head(field: int, length: int) -> bytes:
    """Return what stands before a field of `length` bytes: its tag and that number."""
    head = bytearray([field << 3 | _LENGTH_DELIMITED])
    while length > _ONE_BYTE:
        head.append(length & _ONE_BYTE | 128)
        length >>= 7
    head.append(length)
    return bytes(head)


def _doubles(values: FloatArray) -> bytes:
    return (values if values.dtype is _DOUBLE else values.astype(_DOUBLE)).tobytes()


def _bytes(values: ByteArray) -> bytes:
    return values.astype(_BYTE, copy=False).tobytes()


@lru_cache(maxsize=256)
def _judge_field(identity: JudgeIdentity) -> bytes:
    return BatchJudgeResponse(judge=write_identity(identity)).SerializeToString()


@lru_cache(maxsize=4096)
def _counts_field(ok: int, relevant: int) -> bytes:
    counts = write_counts(VerdictCounts(ok=ok, relevant=relevant))
    return BatchJudgeResponse(counts=counts).SerializeToString()
