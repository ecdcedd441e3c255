"""IntervalOptions in, intervals and estimates out."""

from __future__ import annotations

import pytest
from judged.v1 import metrics_pb2
from judged.values.intervals import Interval, IntervalMethod, IntervalOptions
from judged_server.api.convert.statistics.intervals import (
    read_interval_options,
    write_estimate,
    write_interval,
)
from judged_server.errors import InvalidField

INTERVAL = Interval(0.1, 0.3, 0.9, 0.05, "t|confidence:0.9|v1", ("few",))


def test_an_empty_message_asks_for_the_defaults():
    assert read_interval_options(metrics_pb2.IntervalOptions()) == IntervalOptions()


def test_every_field_is_read():
    message = metrics_pb2.IntervalOptions(
        method=2, confidence=0.5, resamples=100_000, seed=2**64 - 1
    )
    found = read_interval_options(message)
    assert found == IntervalOptions(IntervalMethod.BCA, 0.5, 100_000, 2**64 - 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("method", value) for value in (0, 4, -1)),
        *(("confidence", value) for value in (0.49, 0.99991, -1, 95, float("nan"), float("inf"))),
        *(("resamples", value) for value in (0, 99, 100_001)),
    ],
)
def test_what_is_out_of_range_is_refused_by_its_path(name, value):
    with pytest.raises(InvalidField) as caught:
        read_interval_options(metrics_pb2.IntervalOptions(**{name: value}), "interval")
    assert caught.value.field == f"interval.{name}"


def test_an_interval_is_written_whole():
    message = write_interval(INTERVAL)
    assert (message.lower, message.upper, message.confidence) == (0.1, 0.3, 0.9)
    assert (message.standard_error, message.signature) == (0.05, "t|confidence:0.9|v1")
    assert list(message.warnings) == ["few"]


def test_what_an_estimate_lacks_stays_unset():
    message = write_estimate(0.0, INTERVAL)
    assert message.HasField("value")
    assert message.HasField("interval")
    nothing = write_estimate(None, None)
    assert not nothing.HasField("value")
    assert not nothing.HasField("interval")
