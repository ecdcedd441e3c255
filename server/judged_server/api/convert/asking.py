"""How language models are asked: AskingOptions as the fields of a Caller.

What follows from them is up to `llm`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration
from judged.v1 import types_pb2

from judged_server import errors
from judged_server.domain import CacheMode, Usage, VerdictDetail, VerdictSample

_MODES = {int(mode) for mode in CacheMode}


@dataclass(frozen=True, slots=True)
class Asking:
    """What a request says of asking."""

    cache: CacheMode = CacheMode.USE
    max_cost: float | None = None


def read_asking(message: types_pb2.AskingOptions, field: str = "asking") -> Asking:
    """Return what the message says, or the defaults. Raises InvalidField under `field`."""
    mode = CacheMode.USE
    if message.HasField("cache"):
        if message.cache not in _MODES:
            raise errors.InvalidField(
                f"{field}.cache", f"must be unset or one of {errors.full_names(CacheMode)}"
            )
        mode = CacheMode(message.cache)
    cost = None
    if message.HasField("max_cost"):
        cost = message.max_cost
        if not (math.isfinite(cost) and cost > 0):
            raise errors.InvalidField(
                f"{field}.max_cost", "must be a finite number above 0; leave it unset for no limit"
            )
    return Asking(mode, cost)


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
