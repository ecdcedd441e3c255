from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import Asking, CacheMode
from judged._convert.judges import share, write_asking


def test_nothing_is_written_for_the_defaults_of_the_server():
    assert write_asking(None) is None
    assert not write_asking(Asking()).HasField("max_cost")


@given(st.floats(1e-6, 1e6), st.lists(st.integers(0, 1000), min_size=2, max_size=50))
def test_the_shares_of_all_messages_are_no_more_than_the_whole(cost, sizes):
    whole = sum(sizes)
    shares = [share(Asking(max_cost=cost), part, whole).max_cost for part in sizes if part]
    assert math.fsum(shares) <= cost
    assert all(part > 0 for part in shares)


def test_one_message_gets_all_of_it():
    asking = Asking(CacheMode.REFRESH, 0.5)
    assert share(asking, 3, 3) is asking
    part = share(asking, 1, 4)
    assert part.cache is CacheMode.REFRESH
    assert part.max_cost == pytest.approx(0.125)


def test_what_was_spent_is_not_spent_again():
    assert share(Asking(max_cost=1.0), 1, 2, 0.5).max_cost == pytest.approx(0.25)
    assert share(Asking(max_cost=1.0), 1, 1, 2.0).max_cost == 1e-12


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.inf, math.nan])
def test_a_limit_that_is_none_is_left_for_the_server_to_refuse(wrong):
    asking = Asking(max_cost=wrong)
    assert share(asking, 1, 2) is asking


def test_without_a_limit_there_are_no_shares():
    assert share(None, 1, 2) is None
    asking = Asking(CacheMode.ONLY)
    assert share(asking, 1, 2) is asking
