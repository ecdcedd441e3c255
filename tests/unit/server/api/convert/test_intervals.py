"""IntervalOptions, read from a message."""

from __future__ import annotations

import pytest
from judged.v1 import metrics_pb2
from judged.values.intervals import IntervalMethod, IntervalOptions
from judged_server.api.convert.statistics import read_interval_options
from judged_server.errors import InvalidField


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
