"""Messages about language models: how a verdict came about, and what asking took."""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration
from judged.v1 import types_pb2

from judged_server.domain import Usage, VerdictDetail, VerdictSample


def write_usage(usage: Usage) -> types_pb2.Usage:
    """Return the message of what calls took; without a price it has no cost."""
    latency = Duration()
    latency.FromNanoseconds(round(usage.latency_s * 1e9))
    return types_pb2.Usage(
        calls=usage.calls,
        attempts=usage.attempts,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=usage.cost,
        latency=latency,
        cached=usage.cached,
        shared=usage.shared,
    )


def write_detail(detail: VerdictDetail) -> types_pb2.VerdictDetail:
    """Return the message of how one verdict came about."""
    return types_pb2.VerdictDetail(
        index=detail.index,
        rationale=detail.rationale,
        samples=map(_sample, detail.samples),
        usage=write_usage(detail.usage),
        model=detail.model,
        system_fingerprint=detail.system_fingerprint,
    )


def _sample(sample: VerdictSample) -> types_pb2.VerdictSample:
    return types_pb2.VerdictSample(
        status=int(sample.status),  # type: ignore[arg-type]  # ours has the same numbers
        relevant=sample.relevant,
        score=sample.score,
        reason=sample.reason,
        reasoning=sample.reasoning,
        raw_reply=sample.raw_reply,
        judge=sample.judge,
        fallback=sample.fallback,
    )
