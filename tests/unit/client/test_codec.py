"""Values read from messages, and written, by the names and types of their fields."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import InvalidArgument
from judged._codec import read_fields, write_fields
from judged.v1 import metrics_pb2, scores_pb2, statistics_service_pb2
from judged.values import (
    AnswerScore,
    ClaimVerdict,
    Interval,
    VerifiedClaim,
)
from judged.values.agreement import Agreement, RatingTable
from judged.values.choices import Estimate, IntervalMethod
from judged.values.metrics import MetricResult


def test_what_is_optional_and_unset_is_none_and_a_set_zero_is_zero():
    message = metrics_pb2.MetricResult(name="ap", lower_bound=0.0)
    found = read_fields(MetricResult, message)
    assert (found.mean, found.lower_bound, found.n, found.interval) == (None, 0.0, 0, None)


def test_a_number_of_an_enum_is_its_member_and_an_unknown_one_an_error():
    claim = scores_pb2.VerifiedClaim(claim="c", verdict=scores_pb2.CLAIM_VERDICT_SUPPORTED)
    assert read_fields(VerifiedClaim, claim).verdict is ClaimVerdict.SUPPORTED
    with pytest.raises(InvalidArgument, match="one of CLAIM_VERDICT_SUPPORTED, "):
        read_fields(VerifiedClaim, scores_pb2.VerifiedClaim(claim="c"))


def test_an_unknown_choice_is_named_by_its_path():
    verified = [scores_pb2.VerifiedClaim(claim="c", verdict=n) for n in (1, 77)]
    with pytest.raises(InvalidArgument) as unknown:
        read_fields(AnswerScore, scores_pb2.AnswerScore(status=1, source=1, claims=verified))
    assert unknown.value.field == "claims[1].verdict"


@dataclass(frozen=True)
class Options:
    method: IntervalMethod = IntervalMethod.T
    resamples: int = 7


def test_what_is_unset_has_the_default_of_the_value():
    message = metrics_pb2.IntervalOptions(resamples=0)
    assert read_fields(Options, message) == Options(resamples=0)


ESTIMATES = st.builds(
    Estimate,
    st.none() | st.floats(allow_nan=False),
    st.none()
    | st.builds(
        Interval,
        *[st.floats(allow_nan=False)] * 4,
        st.text(),
        st.lists(st.text(), max_size=2).map(tuple),
    ),
)
VALUES = st.builds(
    Agreement,
    st.lists(st.text(), max_size=3),
    st.integers(0, 1 << 40),
    st.lists(st.text(), max_size=3),
    st.lists(st.integers(0, 9), max_size=4),
    *[st.none() | ESTIMATES] * 6,
    st.lists(st.text(), max_size=2).map(tuple),
)


@given(VALUES)
def test_a_value_that_is_written_and_read_is_the_same(value: Agreement):
    assert read_fields(Agreement, write_fields(statistics_service_pb2.Agreement, value)) == value


def test_one_text_is_no_list_of_texts():
    with pytest.raises(TypeError, match="categories: must be a list, not one text"):
        write_fields(statistics_service_pb2.RatingTable, RatingTable("yes", []))
