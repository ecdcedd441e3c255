"""Between intervals, human labels, corrected means and their messages."""

from __future__ import annotations

from judged.types.intervals import (
    HumanLabels,
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


def write_labels(labels: HumanLabels) -> metrics_pb2.HumanLabels:
    """Return the message of human labels."""
    return metrics_pb2.HumanLabels(
        query_ids=labels.query_ids,
        relevant=labels.relevant,
        inclusion_probabilities=labels.inclusion_probabilities,
    )
