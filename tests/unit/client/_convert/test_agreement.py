from __future__ import annotations

import pytest
from judged import (
    CalibrateOptions,
    IntervalOptions,
    InvalidArgument,
    LabelledScores,
    RatingLevel,
    RatingTable,
    SystemScores,
    ThresholdCriterion,
)
from judged._codec import read_fields, write_fields
from judged._convert.statistics import (
    read_calibration,
    write_calibrate,
)
from judged.v1 import statistics_service_pb2
from judged.values.agreement import MeasuredAgreement

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


def test_systems_travel_as_they_are():
    scores = SystemScores(["a", "b"], [1, 2], [3, 4])
    request = write_fields(REQUEST, systems=scores)
    assert list(request.systems.second) == [3, 4]
    assert not request.HasField("ratings")


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


def test_unset_estimates_are_none_and_the_confusion_has_rows():
    message = statistics_service_pb2.MeasureAgreementResponse()
    message.ratings.categories.extend(["a", "b"])
    message.ratings.confusion.extend([1, 2, 3, 4])
    message.ratings.observed.value = 0.5
    found = read_fields(MeasuredAgreement, message)
    assert found.systems is None
    assert found.ratings.confusion_rows() == [[1, 2], [3, 4]]
    assert found.ratings.observed.value == 0.5
    assert found.ratings.cohen_kappa is None


def test_a_calibration_is_read_with_what_it_lacks():
    message = statistics_service_pb2.CalibrateResponse(signature="s")
    message.thresholds.append(
        statistics_service_pb2.Threshold(
            criterion=statistics_service_pb2.THRESHOLD_CRITERION_PRECISION_FLOOR, fitted=0.5
        )
    )
    message.cascade.accept = 0.0
    found = read_calibration(message)
    (threshold,) = found.thresholds
    assert threshold.criterion is ThresholdCriterion.PRECISION_FLOOR
    assert (threshold.min_score, threshold.fitted, threshold.cross_validated) == (None, 0.5, None)
    assert (found.cascade.accept, found.cascade.reject) == (0.0, None)
    assert found.prevalence.corrected is None
