"""Verdicts as the bytes of their messages, put together without making the messages.

What is rare in a reply, or the same in many, protobuf writes: a field that follows is merged by
whoever reads it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from judged.v1.judge_service_pb2 import BatchJudgeResponse
from judged.v1.verdicts_pb2 import VerdictColumns

from judged_server.api.convert.asking import write_detail, write_usage
from judged_server.api.convert.judging import write_counts, write_fault, write_identity
from judged_server.domain import (
    ByteArray,
    FloatArray,
    JudgeIdentity,
    Source,
    Status,
    VerdictCounts,
    Verdicts,
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
            BatchJudgeResponse(counts=write_counts(VerdictCounts.of(verdicts))).SerializeToString()
        )
    if usage is not None:
        parts.append(BatchJudgeResponse(usage=write_usage(usage)).SerializeToString())
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
