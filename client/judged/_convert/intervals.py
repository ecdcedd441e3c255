"""Between intervals, human labels, corrected means and their messages."""

from __future__ import annotations

from judged._convert.fields import write_fields
from judged._inputs import need_kind
from judged.types.intervals import HumanLabels, IntervalOptions
from judged.v1 import metrics_pb2


def write_interval_options(
    options: IntervalOptions | None,
) -> metrics_pb2.IntervalOptions | None:
    """Return the message of interval options; None stays None and asks for no interval."""
    if options is None:
        return None
    what = "IntervalOptions, such as IntervalOptions(IntervalMethod.BCA)"
    need_kind(options, "interval", IntervalOptions, what)
    return write_fields(metrics_pb2.IntervalOptions, options)


def write_labels(labels: HumanLabels) -> metrics_pb2.HumanLabels:
    """Return the message of human labels."""
    return write_fields(metrics_pb2.HumanLabels, labels)
