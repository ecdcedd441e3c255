"""Messages written from values by the names of their fields, and enumerations read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import pytest
from judged.v1 import metrics_pb2, statistics_service_pb2
from judged.values.intervals import Interval
from judged_server.api.convert.fields import optional, read_choice, write
from judged_server.errors import InvalidField


class RatingLevel(IntEnum):
    NOMINAL = 1
    ORDINAL = 2


@dataclass
class Estimate:
    value: float | None


def test_a_field_holds_the_attribute_of_its_name():
    message = write(metrics_pb2.Interval, Interval(0.1, 0.9, 0.95, 0.2, "t|v1", ("few",)))
    assert (message.lower, message.upper, message.confidence) == (0.1, 0.9, 0.95)
    assert (message.standard_error, message.signature, *message.warnings) == (0.2, "t|v1", "few")


def test_other_fields_are_as_given_and_nothing_stays_unset():
    message = write(metrics_pb2.Estimate, Estimate(None), interval=metrics_pb2.Interval(lower=1))
    assert not message.HasField("value")
    assert message.interval.lower == 1


def test_a_field_that_the_value_lacks_is_an_error():
    with pytest.raises(AttributeError, match="interval"):
        write(metrics_pb2.Estimate, Estimate(1.0))


def test_an_optional_field():
    assert optional(metrics_pb2.Estimate(), "value") is None
    assert optional(metrics_pb2.Estimate(value=0.0), "value") == 0.0


def test_a_choice_or_its_default():
    message = statistics_service_pb2.RatingTable()
    assert read_choice(message, "level", RatingLevel.ORDINAL) is RatingLevel.ORDINAL
    message.level = statistics_service_pb2.RATING_LEVEL_NOMINAL
    assert read_choice(message, "level", RatingLevel.ORDINAL) is RatingLevel.NOMINAL


def test_a_number_that_is_no_choice():
    message = statistics_service_pb2.RatingTable(level=9)
    with pytest.raises(InvalidField) as refused:
        read_choice(message, "level", RatingLevel.NOMINAL, "ratings.", "Scale")
    assert refused.value.field == "ratings.level"
    assert refused.value.rule == "must be unset or one of SCALE_NOMINAL, SCALE_ORDINAL"
