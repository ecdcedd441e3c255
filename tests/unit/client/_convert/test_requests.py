"""What callers hand in, as messages of the contract."""

from __future__ import annotations

import math

import pytest
from judged import (
    Asking,
    CalibrateOptions,
    CompareOptions,
    HumanLabels,
    IntervalOptions,
    InvalidArgument,
    JudgedRanking,
    JudgedRankings,
    LabelledScores,
    MetricOptions,
    PerQueryValues,
    RatingLevel,
    RatingTable,
)
from judged._batching.parts import metric_parts
from judged._codec import write_fields
from judged._convert import CostLimit, write_calibrate, write_compare
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import statistics_service_pb2
from judged.values import JudgeIdentity, Usage

REQUEST = statistics_service_pb2.MeasureAgreementRequest


def written(metrics, relevance, options, metadata=None, human_values=None):
    """Return the one request for metrics."""
    (request,) = metric_parts(metrics, relevance, options, metadata or {}, human_values)
    return request


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


def test_the_threshold_of_a_calibration_is_that_of_its_judge():
    judge = JudgeIdentity("semantic", "", 0.7, "s", "k", "f")
    for given, expected in ((None, 0.7), (0.2, 0.2)):
        options = CalibrateOptions(min_score=given, judge=judge)
        assert write_calibrate(LabelledScores([0.1], [True]), options, None).min_score == expected


def test_a_missing_label_entry_is_refused_before_it_is_sent():
    with pytest.raises(InvalidArgument) as caught:
        write_calibrate(LabelledScores([0.1], []), CalibrateOptions(), None)
    assert caught.value.field == "labels"


def write(runs, qrels=None, **options):
    return write_compare(["ap"], runs, qrels, MetricOptions(), CompareOptions(**options))


class TestWrite:
    def test_zeros_are_sent(self):
        options = write({}, permutations=0, seed=0, max_moved=0, difference=0.0).comparison
        assert all(options.HasField(name) for name in options.DESCRIPTOR.fields_by_name)


def test_no_labels_yet_still_ask_for_a_correction():
    relevance = JudgedRankings(
        [JudgedRanking("q1", 1, 1)], [True], human_labels=HumanLabels([], [])
    )
    assert written(["ap"], relevance, MetricOptions()).judged.HasField("human_labels")


def test_inclusion_probabilities_travel_with_labels_and_values():
    labels = HumanLabels(["q1"], [True], [0.25])
    relevance = JudgedRankings([JudgedRanking("q1", 1, 1)], [True], human_labels=labels)
    request = written(["ap"], relevance, MetricOptions())
    assert list(request.judged.human_labels.inclusion_probabilities) == [0.25]
    machine, human = PerQueryValues(["q1"], [[0.5]]), PerQueryValues(["q1"], [[1.0]], [0.5])
    request = written(["ap"], machine, MetricOptions(), human_values=human)
    assert list(request.human_values.inclusion_probabilities) == [0.5]
    assert not request.values.inclusion_probabilities


def test_nothing_is_written_for_the_defaults_of_the_server():
    assert not CostLimit(None).onto(pb.BatchJudgeRequest()).HasField("asking")
    asking = CostLimit(Asking()).onto(pb.BatchJudgeRequest()).asking
    assert not asking.HasField("max_cost")


def test_what_was_spent_is_not_spent_again():
    cost_limit = CostLimit(Asking(max_cost=1.0))
    cost_limit.took(Usage(cost=0.5))
    cost_limit.took(None)
    assert cost_limit.rest().max_cost == pytest.approx(0.5)
    assert CostLimit(Asking(max_cost=1.0), 2.0).rest().max_cost == 1e-12


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_a_limit_that_is_none_is_left_for_the_server_to_refuse(wrong):
    asking = Asking(max_cost=wrong)
    assert CostLimit(asking).rest() is asking
