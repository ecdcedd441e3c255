"""Between the public values of statistics and the messages of the contract."""

from __future__ import annotations

from judged.statistics import Estimate, Interval, IntervalOptions
from judged.v1 import statistics_pb2


def write_interval_options(
    options: IntervalOptions | None,
) -> statistics_pb2.IntervalOptions | None:
    """Return the message of interval options; None stays None and asks for no interval."""
    if options is None:
        return None
    return statistics_pb2.IntervalOptions(
        method=None if options.method is None else int(options.method),  # type: ignore[arg-type]  # ours has the same numbers
        confidence=options.confidence,
        resamples=options.resamples,
        seed=options.seed,
    )


def read_interval(message: statistics_pb2.Interval) -> Interval:
    """Return an interval."""
    return Interval(
        message.lower,
        message.upper,
        message.confidence,
        message.standard_error,
        message.signature,
        tuple(message.warnings),
    )


def read_estimate(message: statistics_pb2.Estimate) -> Estimate:
    """Return a number with its interval."""
    return Estimate(
        message.value if message.HasField("value") else None,
        read_interval(message.interval) if message.HasField("interval") else None,
    )
