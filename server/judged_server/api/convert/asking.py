"""How language models are asked: AskingOptions as the fields of a Caller.

What follows from them is up to `llm`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from google.protobuf.duration_pb2 import Duration
from judged.v1 import groups_pb2, verdicts_pb2

from judged_server import errors
from judged_server.api.convert.judging import reason_number
from judged_server.api.convert.statistics.guarantee import write_error_guarantee
from judged_server.domain import CacheMode, CascadeUsage, Usage, VerdictDetail, VerdictSample

_MODES = {int(mode) for mode in CacheMode}


@dataclass(frozen=True, slots=True)
class Asking:
    """What a request says of asking."""

    cache: CacheMode = CacheMode.USE
    max_cost: float | None = None


def read_asking(message: groups_pb2.AskingOptions, field: str = "asking") -> Asking:
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


def write_usage(usage: Usage) -> verdicts_pb2.Usage:
    """Return the message of what calls took; without a price it has no cost."""
    latency = Duration()
    latency.FromNanoseconds(round(usage.latency_s * 1e9))
    return verdicts_pb2.Usage(
        calls=usage.calls,
        attempts=usage.attempts,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost=usage.cost,
        latency=latency,
        cached=usage.cached,
        shared=usage.shared,
        avoided_calls=usage.avoided_calls,
        cascade=None if usage.cascade is None else write_cascade(usage.cascade),
    )


def write_cascade(cascade: CascadeUsage) -> verdicts_pb2.CascadeUsage:
    """Return the message of what the stages of a cascade did."""
    guarantee = cascade.guarantee
    return verdicts_pb2.CascadeUsage(
        stages=[
            verdicts_pb2.StageUsage(
                judge=stage.judge, asked=stage.asked, settled=stage.settled, cost=stage.cost
            )
            for stage in cascade.stages
        ],
        avoided_cost=cascade.avoided_cost,
        guarantee=None if guarantee is None else write_error_guarantee(guarantee),
    )


def write_detail(detail: VerdictDetail) -> verdicts_pb2.VerdictDetail:
    """Return the message of how one verdict came about."""
    return verdicts_pb2.VerdictDetail(
        index=detail.index,
        rationale=detail.rationale,
        samples=map(_sample, detail.samples),
        usage=write_usage(detail.usage),
        model=detail.model,
        system_fingerprint=detail.system_fingerprint,
    )


def _sample(sample: VerdictSample) -> verdicts_pb2.VerdictSample:
    return verdicts_pb2.VerdictSample(
        status=int(sample.status),  # type: ignore[arg-type]  # ours has the same numbers
        relevant=sample.relevant,
        score=sample.score,
        reason=reason_number(sample.reason),
        reasoning=sample.reasoning,
        raw_reply=sample.raw_reply,
        judge=sample.judge,
        fallback=sample.fallback,
    )
