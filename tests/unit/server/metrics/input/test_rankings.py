"""The layout of ragged rankings."""

from dataclasses import replace

import numpy as np
import pytest
from judged_server.errors import InvalidField
from judged_server.metrics.input.rankings import (
    Pool,
    Rankings,
    descending,
    flatten,
    offsets_of,
    positions_in_groups,
    rank_gains,
    ratio,
)

RANKINGS = Rankings(
    offsets=np.array([0, 3, 3, 5]),
    gains=np.array([0.0, 2.0, 1.0, 1.0, 0.0]),
    ideal_offsets=np.array([0, 3, 4, 5]),
    ideal_gains=np.array([3.0, 2.0, 1.0, 1.0, 1.0]),
)


def test_hits_know_their_query_rank_and_number():
    hits = RANKINGS.hits
    assert hits.query.tolist() == [0, 0, 2]
    assert hits.rank.tolist() == [2, 3, 1]
    assert hits.ordinal.tolist() == [1, 2, 1]
    assert hits.gain.tolist() == [2.0, 1.0, 1.0]
    assert hits.count(None).tolist() == [2, 0, 1]
    assert hits.count(2).tolist() == [1, 0, 1]
    assert hits.total(hits.gain, 2).tolist() == [2.0, 0.0, 1.0]


def test_the_ideal_ranking_is_every_relevant_item():
    assert RANKINGS.ideal.rank.tolist() == [1, 2, 3, 1, 1]
    assert RANKINGS.top_gain.tolist() == [3.0, 1.0, 1.0]
    assert RANKINGS.n_relevant.tolist() == [3, 1, 1]
    assert RANKINGS.n_retrieved.tolist() == [3, 0, 2]


def test_take_chooses_and_orders():
    taken = RANKINGS.take(np.array([2, 0]))
    assert taken.offsets.tolist() == [0, 2, 5]
    assert taken.gains.tolist() == [1.0, 0.0, 0.0, 2.0, 1.0]
    assert taken.ideal_gains.tolist() == [1.0, 3.0, 2.0, 1.0]
    assert RANKINGS.take(np.array([], np.int64)).n_queries == 0


def test_without_a_pool_everything_retrieved_was_judged():
    pool = RANKINGS.pool
    assert pool.judged.tolist() == [True] * 5
    assert pool.unsampled.tolist() == [False] * 5
    assert pool.n_nonrelevant.tolist() == [1, 0, 1]
    assert RANKINGS.take(np.array([2])).known_pool is None


def test_take_takes_the_pool_along():
    judged = np.array([True, True, True, True, False])
    pool = Pool(judged, ~judged, np.array([5, 6, 7]))
    taken = replace(RANKINGS, known_pool=pool).take(np.array([2, 1])).pool
    assert taken.judged.tolist() == [True, False]
    assert taken.unsampled.tolist() == [False, True]
    assert taken.n_nonrelevant.tolist() == [7, 6]


def test_a_ratio_to_nothing_is_zero():
    assert ratio(np.array([1, 0, 3]), np.array([2, 0, 0])).tolist() == [0.5, 0.0, 0.0]


def test_ragged_helpers():
    assert offsets_of(np.array([2, 0, 1])).tolist() == [0, 2, 2, 3]
    assert positions_in_groups(np.array([2, 0, 3])).tolist() == [0, 1, 0, 1, 2]
    offsets, flat = flatten([[3, 1, 2], [], (0.5, 4)])
    assert (offsets.tolist(), flat.tolist()) == ([0, 3, 3, 5], [3.0, 1.0, 2.0, 0.5, 4.0])
    assert descending(offsets, flat).tolist() == [3.0, 2.0, 1.0, 4.0, 0.5]
    assert flatten([])[0].tolist() == [0]


def test_top_cuts_what_was_retrieved_and_leaves_what_there_is_to_find():
    top = replace(RANKINGS, found_ranks=np.array([3, 2, 0, 0, 1])).top(2)
    assert top.offsets.tolist() == [0, 2, 2, 4]
    assert top.gains.tolist() == [0.0, 2.0, 1.0, 0.0]
    assert top.ideal_gains.tolist() == RANKINGS.ideal_gains.tolist()
    assert top.found_ranks.tolist() == [0, 2, 0, 0, 1]
    assert top.known_pool is None
    assert RANKINGS.top(1_000_000_000).gains.tolist() == RANKINGS.gains.tolist()


def test_top_cuts_the_pool_too():
    judged = np.array([True, False, True, True, False])
    top = replace(RANKINGS, known_pool=Pool(judged, ~judged, np.array([5, 6, 7]))).top(1)
    assert top.pool.judged.tolist() == [True, True]
    assert top.pool.unsampled.tolist() == [False, False]
    assert top.pool.n_nonrelevant.tolist() == [5, 6, 7]


def test_gains_below_the_level_are_judged_not_relevant():
    level = RANKINGS.relevant_from(2)
    assert level.gains.tolist() == [0.0, 2.0, 0.0, 0.0, 0.0]
    assert level.ideal_gains.tolist() == [3.0, 2.0]
    assert level.n_relevant.tolist() == [2, 0, 0]
    # One of query 0 was no hit; relevant items that were not retrieved count as well.
    assert level.pool.n_nonrelevant.tolist() == [1 + 1, 0 + 1, 1 + 1]
    assert level.pool.judged.tolist() == [True] * 5
    assert RANKINGS.relevant_from(1).gains.tolist() == RANKINGS.gains.tolist()


def test_gains_become_rankings():
    rankings = rank_gains([[0, 2, -3], []], [[1, 2], [5]], "gains.rankings")
    assert rankings.gains.tolist() == [0.0, 2.0, 0.0]
    assert rankings.offsets.tolist() == [0, 3, 3]
    assert rankings.ideal_gains.tolist() == [2.0, 1.0, 5.0]


@pytest.mark.parametrize(
    ("gains", "relevant", "path"),
    [
        ([[1], [0, float("nan")]], [[1], [1]], "f[1].gains[1]"),
        ([[], [float("inf")]], [[], [1]], "f[1].gains[0]"),
        ([[1], [1]], [[1], [1, float("inf")]], "f[1].relevant_gains[1]"),
        ([[1], [1]], [[1], [1, float("nan")]], "f[1].relevant_gains[1]"),
        ([[1], [1]], [[1], [1, 0]], "f[1].relevant_gains[1]"),
        ([[1], []], [[1, -1], []], "f[0].relevant_gains[1]"),
        ([[1], [1, 1]], [[1], [1]], "f[1].relevant_gains"),
        ([[1], [1]], [[], [1]], "f[0].relevant_gains"),
        ([[0], [0, 1]], [[], []], "f[1].relevant_gains"),
        ([[1, 3]], [[2, 2]], "f[0].relevant_gains"),
        ([[2, 2]], [[3, 1]], "f[0].relevant_gains"),
    ],
)
def test_refused_gains_are_named(gains, relevant, path):
    with pytest.raises(InvalidField) as caught:
        rank_gains(gains, relevant, "f")
    assert caught.value.field == path


@pytest.mark.parametrize(
    ("gains", "relevant", "says"),
    [
        ([[float("nan")]], [[1]], "f[0].gains[0]: must be finite"),
        ([[1]], [[1, 0]], "f[0].relevant_gains[1]: must be finite and above 0"),
        ([[1, 1]], [[1]], "f[0].relevant_gains: must hold the gain of every relevant document"),
    ],
)
def test_the_rule_is_told(gains, relevant, says):
    with pytest.raises(InvalidField) as caught:
        rank_gains(gains, relevant, "f")
    assert caught.value.message.startswith(says)


def test_the_rule_on_unattainable_gains_says_which():
    with pytest.raises(InvalidField, match="number 2 is 1 but 2 was retrieved"):
        rank_gains([[2, 2]], [[3, 1]], "f")
