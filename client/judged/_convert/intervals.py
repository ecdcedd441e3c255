"""Writes how intervals are made."""

from __future__ import annotations

from judged._codec import write_optional
from judged._inputs import need_kind
from judged.v1 import metrics_pb2
from judged.values.intervals import IntervalOptions


def write_interval_options(
    options: IntervalOptions | None,
) -> metrics_pb2.IntervalOptions | None:
    """Return the message of interval options; None stays None and asks for no interval."""
    if options is not None:
        what = "IntervalOptions, such as IntervalOptions(IntervalMethod.BCA)"
        need_kind(options, "interval", IntervalOptions, what)
    return write_optional(metrics_pb2.IntervalOptions, options)
