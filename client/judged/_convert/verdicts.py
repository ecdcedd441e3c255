"""Reads verdicts from replies, with what language models said and what they took."""

from __future__ import annotations

from collections.abc import Sequence

from judged._transport.status import in_python
from judged.types.asking import Usage
from judged.types.choices import Source, Status
from judged.types.groups import QueryGroup
from judged.types.judges import JudgeIdentity
from judged.types.verdicts import (
    JudgedChunk,
    VerdictCounts,
    VerdictDetail,
    VerdictError,
    Verdicts,
    VerdictSample,
)
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import types_pb2


def read_error(message: types_pb2.VerdictError) -> VerdictError:
    """Return why a verdict is missing."""
    said = in_python(message.message)
    return VerdictError(message.code, message.reason, said, message.retryable)


def read_verdicts(
    message: types_pb2.VerdictColumns,
    judge: JudgeIdentity,
    usage: Usage | None = None,
    groups: Sequence[QueryGroup] = (),
) -> Verdicts:
    """Return the verdicts of a reply; columns that were left empty are filled in."""
    total = len(message.relevant)
    return Verdicts(
        relevant=list(message.relevant),
        score=list(message.score),
        status=list(message.status) or [int(Status.OK)] * total,
        source=list(message.source) or [int(Source.COMPUTED)] * total,
        flags=list(message.flags) or [0] * total,
        offsets=list(message.group_offsets),
        errors={error.index: read_error(error) for error in message.errors},
        judge=judge,
        agreement=list(message.agreement),
        details={detail.index: read_detail(detail) for detail in message.details},
        usage=usage,
        groups=groups,
    )


def usage_of(
    message: pb.BatchJudgeResponse | pb.JudgedChunk | pb.EvaluateResponse,
) -> Usage | None:
    """Return what a reply took of language models, None when none was asked."""
    return read_usage(message.usage) if message.HasField("usage") else None


def read_chunk(
    message: pb.JudgedChunk, judge: JudgeIdentity, groups: Sequence[QueryGroup] = ()
) -> JudgedChunk:
    """Return an answered chunk; `groups` are those that were sent."""
    failed = message.WhichOneof("result") == "error"
    return JudgedChunk(
        message.chunk_id,
        None if failed else read_verdicts(message.verdicts, judge, usage_of(message), groups),
        read_error(message.error) if failed else None,
        message.progress.contexts_received,
        message.progress.contexts_done,
    )


def read_verdict_counts(message: types_pb2.VerdictCounts) -> VerdictCounts:
    return VerdictCounts(
        message.ok,
        message.error,
        message.abstained,
        message.not_assessable,
        message.relevant,
        message.flagged_no_tokens,
        message.flagged_truncated,
        message.flagged_reserved_tokens,
        message.flagged_fallback,
    )


def read_usage(message: types_pb2.Usage) -> Usage:
    """Return what calls took."""
    return Usage(
        message.calls,
        message.attempts,
        message.input_tokens,
        message.output_tokens,
        message.cost if message.HasField("cost") else None,
        message.latency.ToNanoseconds() / 1e9,
        message.cached,
        message.shared,
    )


def read_detail(message: types_pb2.VerdictDetail) -> VerdictDetail:
    """Return how one verdict came about."""
    return VerdictDetail(
        message.rationale,
        [_read_sample(sample) for sample in message.samples],
        read_usage(message.usage),
        message.model,
        message.system_fingerprint,
    )


def _read_sample(message: types_pb2.VerdictSample) -> VerdictSample:
    status = Status(message.status)
    votes = status is Status.OK
    return VerdictSample(
        status,
        message.relevant if votes else None,
        message.score if votes else None,
        message.reason,
        message.reasoning,
        message.raw_reply,
        message.judge,
        message.fallback,
    )
