"""The three matching modes against literal readings of their definitions."""

from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.metrics.matching import JudgedResults, earliest_hits, match
from judged_server.metrics.table import MatchingMode


def matrices(max_side=4):
    side = st.integers(0, max_side)
    return st.tuples(side, side).flatmap(
        lambda shape: st.lists(
            st.lists(st.booleans(), min_size=shape[1], max_size=shape[1]),
            min_size=shape[0],
            max_size=shape[0],
        ).map(lambda rows: np.array(rows, np.bool_).reshape(shape))
    )


def judged(groups, missing=None):
    flat = [group.ravel() for group in groups]
    return JudgedResults(
        np.concatenate([np.empty(0, np.bool_), *flat]),
        np.array([group.shape[0] for group in groups], np.int64),
        np.array([group.shape[1] for group in groups], np.int64),
        missing,
    )


def hits_of(rankings):
    return [part.tolist() for part in np.split(rankings.gains > 0, rankings.offsets[1:-1])]


def literal_greedy(matrix):
    taken, hits = set(), []
    for row in matrix:
        free = [e for e, relevant in enumerate(row) if relevant and e not in taken]
        taken.update(free[:1])
        hits.append(bool(free))
    return hits


def can_all_match(matrix, results):
    """Whether these results can each have an expected text of their own."""
    return any(
        all(matrix[r][e] for r, e in zip(results, chosen, strict=True))
        for chosen in permutations(range(matrix.shape[1]), len(results))
    )


def brute_force_maximum(matrix):
    """The largest set of results that can be matched, and of those the first in rank order."""
    everyone = range(matrix.shape[0])
    for size in range(matrix.shape[0], -1, -1):
        for results in combinations(everyone, size):  # in lexicographic order
            if can_all_match(matrix, results):
                return [r in results for r in everyone]
    raise AssertionError


@given(st.lists(matrices(), max_size=6))
def test_greedy_is_the_literal_loop(groups):
    rankings = match(judged(groups), MatchingMode.GREEDY_FIRST)
    assert hits_of(rankings)[: len(groups)] == [literal_greedy(group) for group in groups]
    assert rankings.n_relevant.tolist() == [group.shape[1] for group in groups]


@pytest.mark.parametrize("shape", [(200, 3), (3, 200), (40, 40), (1, 500), (500, 1)])
def test_greedy_on_long_and_wide_groups(shape):
    rng = np.random.default_rng(5)
    groups = [rng.random(shape) < density for density in (0.01, 0.1, 0.5, 1.0)]
    hits = hits_of(match(judged(groups), MatchingMode.GREEDY_FIRST))
    assert hits == [literal_greedy(group) for group in groups]


@given(st.lists(matrices(), max_size=4))
def test_maximum_has_the_most_and_the_earliest_hits(groups):
    rankings = match(judged(groups), MatchingMode.MAXIMUM)
    assert hits_of(rankings)[: len(groups)] == [brute_force_maximum(group) for group in groups]


@given(matrices(max_side=5))
def test_maximum_is_maximum_within_every_prefix(matrix):
    hits = earliest_hits(matrix)
    for k in range(1, len(hits) + 1):
        assert sum(hits[:k]) == sum(brute_force_maximum(matrix[:k]))


def test_maximum_never_has_fewer_hits_than_greedy_in_any_prefix():
    rng = np.random.default_rng(6)
    groups = [rng.random((30, 20)) < density for density in np.linspace(0.01, 0.3, 30)]
    greedy = match(judged(groups), MatchingMode.GREEDY_FIRST)
    maximum = match(judged(groups), MatchingMode.MAXIMUM)
    for ours, theirs in zip(hits_of(maximum), hits_of(greedy), strict=True):
        assert np.all(np.cumsum(ours) >= np.cumsum(theirs))
    assert maximum.gains.sum() > greedy.gains.sum()


def test_maximum_walks_long_augmenting_paths():
    # Result r matches expected r and r + 1, but the last one only expected 0: everyone moves up.
    n = 700
    matrix = np.eye(n, dtype=bool) | np.eye(n, k=1, dtype=bool)
    matrix[-1] = False
    matrix[-1, 0] = True
    assert earliest_hits(matrix).all()
    assert literal_greedy(matrix) == [True] * (n - 1) + [False]


@given(st.lists(matrices(), max_size=6))
def test_any_pairs_nothing(groups):
    rankings = match(judged(groups), MatchingMode.ANY)
    assert hits_of(rankings)[: len(groups)] == [group.any(axis=1).tolist() for group in groups]
    best = [
        min((r + 1 for r in range(group.shape[0]) if group[r, e]), default=0)
        for group in groups
        for e in range(group.shape[1])
    ]
    assert rankings.found_ranks.tolist() == best
    for k in (None, 1, 2, 9):
        assert rankings.found(k).tolist() == [
            sum(bool(column[:k].any()) for column in group.T) for group in groups
        ]


def test_three_results_on_one_expected_text_are_one_hit_but_under_any():
    results = judged([np.array([[True], [True], [True]])])
    assert hits_of(match(results, MatchingMode.GREEDY_FIRST)) == [[True, False, False]]
    assert hits_of(match(results, MatchingMode.MAXIMUM)) == [[True, False, False]]
    assert hits_of(match(results, MatchingMode.ANY)) == [[True, True, True]]


def test_a_missing_verdict_matches_nothing_here():
    matrix = np.array([[True, True]])
    results = judged([matrix], missing=np.array([True, True]))
    for mode in MatchingMode:
        assert hits_of(match(results, mode)) == [[False]]


def test_lengths_must_fit():
    with pytest.raises(ValueError, match="the groups have 6 verdicts"):
        JudgedResults(np.zeros(5, np.bool_), np.array([2]), np.array([3]))
    with pytest.raises(ValueError, match="the groups have 6 verdicts"):
        JudgedResults(np.zeros(6, np.bool_), np.array([2]), np.array([3]), np.zeros(5, np.bool_))
