"""Between intervals, human labels, corrected means and their messages."""

from __future__ import annotations

from judged.types.intervals import (
    CorrectedEstimate,
    Estimate,
    HumanLabels,
    Interval,
    IntervalOptions,
)
from judged.v1 import metrics_pb2


def write_interval_options(
    options: IntervalOptions | None,
) -> metrics_pb2.IntervalOptions | None:
    """Return the message of interval options; None stays None and asks for no interval."""
    if options is None:
        return None
    return metrics_pb2.IntervalOptions(
        method=None if options.method is None else int(options.method),  # type: ignore[arg-type]  # ours has the same numbers
        confidence=options.confidence,
        resamples=options.resamples,
        seed=options.seed,
    )


def read_interval(message: metrics_pb2.Interval) -> Interval:
    """Return an interval."""
    return Interval(
        message.lower,
        message.upper,
        message.confidence,
        message.standard_error,
        message.signature,
        tuple(message.warnings),
    )


def read_estimate(message: metrics_pb2.Estimate) -> Estimate:
    """Return a number with its interval."""
    return Estimate(
        message.value if message.HasField("value") else None,
        read_interval(message.interval) if message.HasField("interval") else None,
    )


def write_labels(labels: HumanLabels) -> metrics_pb2.HumanLabels:
    """Return the message of human labels."""
    return metrics_pb2.HumanLabels(
        query_ids=labels.query_ids,
        relevant=labels.relevant,
        inclusion_probabilities=labels.inclusion_probabilities,
    )


def read_corrected(message: metrics_pb2.CorrectedEstimate) -> CorrectedEstimate:
    """Return a corrected mean; estimates that are unset are None."""
    return CorrectedEstimate(
        corrected=read_estimate(message.corrected) if message.HasField("corrected") else None,
        naive=read_estimate(message.naive) if message.HasField("naive") else None,
        labels_only=read_estimate(message.labels_only) if message.HasField("labels_only") else None,
        n_labelled=message.n_labelled,
        n=message.n,
        power=message.power,
        warnings=tuple(message.warnings),
        half_width_with_more=(
            message.half_width_with_more if message.HasField("half_width_with_more") else None
        ),
    )
