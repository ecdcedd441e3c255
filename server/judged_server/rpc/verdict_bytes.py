"""Verdicts as the bytes of their messages, put together without making the messages.

Owns the layout of the verdict columns and of BatchJudge's reply on the wire: a packed column is a
tag, a length and its values, and the values are what a NumPy array holds already. What is rare in a
reply, or the same in many, protobuf writes: a field that follows is merged by whoever reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from judged.v1.judge_service_pb2 import BatchJudgeResponse
from judged.v1.types_pb2 import VerdictColumns, VerdictCounts

from judged_server.domain import ByteArray, FloatArray, JudgeIdentity, Source, Status, Verdicts
from judged_server.rpc.details_codec import write_detail, write_usage
from judged_server.rpc.judging_codec import write_counts, write_fault, write_identity

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


def reply_bytes(verdicts: Verdicts, identity: JudgeIdentity) -> bytes:
    """Return the BatchJudgeResponse that carries verdicts and tells which judge gave them."""
    columns, relevant = verdicts.columns, verdicts.relevant.tobytes()
    n, rare, offsets = len(relevant), _rare_columns(verdicts), verdicts.offsets
    if n <= _ONE_BYTE:
        head, between, tail = _frame(n, len(rare), bytes(offsets), identity)
    else:
        head, between, tail = _frame_around(n, len(rare), _offsets_field(offsets), identity)
    if columns.statuses is None and columns.flags is None:
        counts = _counts_field(n, relevant.count(1))
    else:
        counts = BatchJudgeResponse(counts=write_counts(verdicts)).SerializeToString()
    usage = b""
    if columns.usage is not None:
        usage = BatchJudgeResponse(usage=write_usage(columns.usage)).SerializeToString()
    scores = _doubles(columns.scores)
    return b"".join((head, relevant, between, scores, rare, tail, counts, usage))


def write_verdicts(verdicts: Verdicts) -> VerdictColumns:
    """Return the message of verdicts, as a part of other messages."""
    relevant, scores = verdicts.relevant.tobytes(), _doubles(verdicts.columns.scores)
    parts = (_head(_RELEVANT, len(relevant)), relevant, _head(_SCORE, len(scores)), scores)
    rest = (_rare_columns(verdicts), _offsets_field(verdicts.offsets))
    return VerdictColumns.FromString(b"".join(parts + rest))


def _frame_around(
    n: int, rare: int, offsets_field: bytes, identity: JudgeIdentity
) -> tuple[bytes, bytes, bytes]:
    """Return what a reply has before its n decisions, its n scores, and behind its rare columns.

    `rare` is how many bytes these have.
    """
    before_relevant, before_scores = _head(_RELEVANT, n), _head(_SCORE, 8 * n)
    own = len(before_relevant) + len(before_scores) + len(offsets_field)
    head = _head(_VERDICTS, own + 9 * n + rare) + before_relevant
    return head, before_scores, offsets_field + _judge_field(identity)


@lru_cache(maxsize=1024)
def _frame(
    n: int, rare: int, offsets: bytes, identity: JudgeIdentity
) -> tuple[bytes, bytes, bytes]:
    """Return the frame of a small reply: each thing done between two requests takes its time."""
    return _frame_around(n, rare, _offsets_field(offsets), identity)


def _offsets_field(offsets: Sequence[int]) -> bytes:
    if offsets[-1] <= _ONE_BYTE:
        return _head(_OFFSETS, len(offsets)) + bytes(offsets)
    return VerdictColumns(group_offsets=offsets).SerializeToString()


def _rare_columns(verdicts: Verdicts) -> bytes:
    """Return the columns that say something else than they do in most replies."""
    columns, sources = verdicts.columns, verdicts.sources
    n = len(columns.scores)
    parts: list[bytes] = []
    # A status, a source and a flag are at most 127, and so are their own bytes on the wire.
    if columns.statuses is not None and (columns.statuses != Status.OK).any():
        parts += _head(_STATUS, n), _bytes(columns.statuses)
    if sources is not None and (sources != Source.COMPUTED).any():
        parts += _head(_SOURCE, n), _bytes(sources)
    if columns.flags is not None and columns.flags.any():
        parts += _head(_FLAGS, n), _bytes(columns.flags)
    if columns.agreements is not None:
        parts += _head(_AGREEMENT, 8 * n), _doubles(columns.agreements)
    if columns.faults or columns.details:
        rest = VerdictColumns(
            errors=map(write_fault, columns.faults), details=map(write_detail, columns.details)
        )
        parts.append(rest.SerializeToString())
    return b"".join(parts)


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
    counts = VerdictCounts(ok=ok, relevant=relevant)
    return BatchJudgeResponse(counts=counts).SerializeToString()
