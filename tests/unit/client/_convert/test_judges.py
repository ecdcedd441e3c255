from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import Asking
from judged._convert.judges import Purse, write_asking
from judged.values import Usage


def test_nothing_is_written_for_the_defaults_of_the_server():
    assert write_asking(None) is None
    assert not write_asking(Asking()).HasField("max_cost")


@given(st.floats(1e-6, 1e6), st.integers(1, 50))
def test_what_several_messages_may_cost_is_no_more_than_the_whole(cost, parts):
    each = Purse(Asking(max_cost=cost)).rest(parts).max_cost
    assert each > 0
    assert math.fsum([each] * parts) <= cost


def test_what_was_spent_is_not_spent_again():
    purse = Purse(Asking(max_cost=1.0))
    purse.took(Usage(cost=0.5))
    purse.took(None)
    assert purse.rest(2).max_cost == pytest.approx(0.25)
    assert Purse(Asking(max_cost=1.0), 2.0).rest().max_cost == 1e-12


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_a_limit_that_is_none_is_left_for_the_server_to_refuse(wrong):
    asking = Asking(max_cost=wrong)
    assert Purse(asking).rest(2) is asking
