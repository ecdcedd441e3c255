from __future__ import annotations

import pytest
from judged import (
    CalibrateOptions,
    IntervalOptions,
    InvalidArgument,
    LabelledScores,
    RatingLevel,
    RatingTable,
)
from judged._codec import write_fields
from judged._convert.statistics import (
    write_calibrate,
)
from judged.v1 import statistics_service_pb2

REQUEST = statistics_service_pb2.MeasureAgreementRequest


def test_categories_travel_as_their_places_and_none_as_minus_one():
    table = RatingTable.of(
        ["no", "yes"], {"a": ["yes", None], "b": ["no", "yes"]}, RatingLevel.ORDINAL
    )
    request = write_fields(REQUEST, ratings=table, interval=IntervalOptions(seed=7))
    assert [(r.name, list(r.ratings)) for r in request.ratings.raters] == [
        ("a", [1, -1]),
        ("b", [0, 1]),
    ]
    assert request.ratings.level == statistics_service_pb2.RATING_LEVEL_ORDINAL
    assert request.interval.seed == 7
    assert not request.HasField("systems")


def test_a_rating_that_is_no_category_is_named_by_its_place():
    with pytest.raises(InvalidArgument) as caught:
        RatingTable.of(["no", "yes"], {"a": ["yes"], "b": ["maybe"]})
    assert caught.value.field == "ratings.raters[1].ratings[0]"
    assert "maybe" not in caught.value.message


def test_labels_travel_as_places_and_decisions():
    items = LabelledScores([0.1, 0.2, 0.3], [None, True, False], ["q", "r", "q"])
    message = write_calibrate(items, CalibrateOptions(min_score=0.0, folds=3), None)
    assert (list(message.labelled), list(message.labels)) == ([1, 2], [True, False])
    assert list(message.clusters) == [0, 1, 0]
    assert message.HasField("min_score")
    assert not message.HasField("max_error")
    assert not message.HasField("interval")


def test_a_missing_label_entry_is_refused_before_it_is_sent():
    with pytest.raises(InvalidArgument) as caught:
        write_calibrate(LabelledScores([0.1], []), CalibrateOptions(), None)
    assert caught.value.field == "labels"
