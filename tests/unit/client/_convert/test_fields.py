"""Values read from messages by the names and types of their fields."""

import pytest
from judged._convert.fields import read_fields
from judged.types import ClaimVerdict, Interval, MetricTable, RubricInfo, VerifiedClaim
from judged.types.metrics import MetricResult
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2, scores_pb2


def test_what_is_optional_and_unset_is_none_and_a_set_zero_is_zero():
    message = metrics_pb2.MetricResult(name="ap", lower_bound=0.0)
    found = read_fields(MetricResult, message)
    assert (found.mean, found.lower_bound, found.n, found.interval) == (None, 0.0, 0, None)


def test_inner_messages_are_values_and_repeated_ones_lists():
    interval = metrics_pb2.Interval(lower=0.25, upper=0.5, warnings=["few"])
    metric = metrics_pb2.MetricResult(name="ap", per_query=[0.5, 1.0], interval=interval)
    table = metrics_pb2.MetricTable(metrics=[metric], query_ids=["q1", "q2"])
    found = read_fields(MetricTable, table)
    assert found["ap"].interval == Interval(0.25, 0.5, 0.0, 0.0, "", ("few",))
    assert found["ap"].per_query == [0.5, 1.0]
    assert (found.query_ids, found.counts.verdicts, found.slices) == (["q1", "q2"], None, [])


def test_mappings_are_dictionaries():
    found = read_fields(RubricInfo, pb.RubricInfo(rubric="r", dimensions={"accuracy": 2.0}))
    assert (found.rubric, found.dimensions, found.fields) == ("r", {"accuracy": 2.0}, [])


def test_a_number_of_an_enum_is_its_member_and_an_unknown_one_an_error():
    claim = scores_pb2.VerifiedClaim(claim="c", verdict=scores_pb2.CLAIM_VERDICT_SUPPORTED)
    assert read_fields(VerifiedClaim, claim).verdict is ClaimVerdict.SUPPORTED
    with pytest.raises(ValueError, match="0 is not a valid ClaimVerdict"):
        read_fields(VerifiedClaim, scores_pb2.VerifiedClaim(claim="c"))


def test_what_is_given_is_not_read():
    message = metrics_pb2.MetricResult(name="ap", n=3)
    assert read_fields(MetricResult, message, n=7, signature="s").n == 7
