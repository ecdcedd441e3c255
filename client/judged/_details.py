"""Reads what language models said, and what they took, from replies."""

from __future__ import annotations

from judged.details import Usage, VerdictDetail, VerdictSample
from judged.statuses import Status
from judged.v1 import types_pb2


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
