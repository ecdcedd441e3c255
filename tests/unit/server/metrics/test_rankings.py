"""The layout of ragged rankings."""

from dataclasses import replace

import numpy as np
from judged_server.metrics.rankings import (
    Pool,
    Rankings,
    descending,
    flatten,
    offsets_of,
    positions_in_groups,
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
