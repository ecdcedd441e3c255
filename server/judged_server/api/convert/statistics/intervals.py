"""Between the messages of intervals and `statistics.intervals`: options in, intervals out.

Every call that makes intervals reads and writes them here.
"""

from __future__ import annotations

from judged.v1 import metrics_pb2
from judged.values.intervals import Estimate, Interval, IntervalOptions

from judged_server.api.convert.fields import read, write
from judged_server.errors import InvalidField

CONFIDENCE = (0.5, 0.9999)
RESAMPLES = (100, 100_000)


def read_interval_options(
    message: metrics_pb2.IntervalOptions, field: str = "options.interval"
) -> IntervalOptions:
    """Return the options, the default where a field is unset. Raises InvalidField with the path."""
    options = read(IntervalOptions, message, field)
    if not CONFIDENCE[0] <= options.confidence <= CONFIDENCE[1]:  # NaN is in no range
        raise InvalidField(f"{field}.confidence", "must lie in 0.5 to 0.9999, or be unset")
    if not RESAMPLES[0] <= options.resamples <= RESAMPLES[1]:
        raise InvalidField(f"{field}.resamples", "must lie in 100 to 100000, or be unset")
    return options


def write_interval(interval: Interval) -> metrics_pb2.Interval:
    """Return the message of an interval."""
    return write(metrics_pb2.Interval, interval)


def write_estimate(value: float | None, interval: Interval | None) -> metrics_pb2.Estimate:
    """Return the message of a number with its interval; what is None stays unset."""
    return metrics_pb2.Estimate(
        value=value, interval=None if interval is None else write_interval(interval)
    )


def write_known(estimate: Estimate) -> metrics_pb2.Estimate | None:
    """Return the message of an estimate, None of one that has no value: its field stays unset."""
    return None if estimate.value is None else write_estimate(estimate.value, estimate.interval)
