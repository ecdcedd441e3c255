"""What missing verdicts could change, against every way of filling them in."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_server.metrics.matching import JudgedResults, match, unsettled
from judged_server.metrics.measures.names import parse_measure
from judged_server.metrics.table import MatchingMode

PAIRED = ["precision@2", "recall", "f1@3", "hit_rate@1", "mrr", "ap", "ap(divisor=min)@2", "ndcg@3"]
PAIRED += ["r_precision", "context_precision", "hybrid_log_rank", "hybrid_log_rank@2"]
PAIRED += ["err", "err(max_grade=3)@3", "rbp", "rbp(p=0.3)@2", "rbp_residual"]
UNPAIRED = ["precision@2", "recall", "recall@1", "f1@3", "hit_rate@1", "mrr"]
UNPAIRED += ["hybrid_log_rank", "hybrid_log_rank(gamma=0,alpha=0.2)@3"]


@st.composite
def groups_with_gaps(draw):
    """One group of at most 4 by 3 with 1 to 5 missing verdicts."""
    n_retrieved, n_expected = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    size = n_retrieved * n_expected
    relevant = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    gaps = draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=5))
    missing = np.zeros(size, np.bool_)
    missing[list(gaps)] = True
    return JudgedResults(
        np.array(relevant), np.array([n_retrieved]), np.array([n_expected]), missing
    )


def completions(results):
    places = np.flatnonzero(results.missing)
    for values in product([False, True], repeat=len(places)):
        relevant = results.relevant.copy()
        relevant[places] = values
        yield JudgedResults(relevant, results.n_retrieved, results.n_expected)


def outcome(rankings):
    found = rankings.found_ranks
    return rankings.gains.tolist(), None if found is None else found.tolist()


@pytest.mark.parametrize("mode", MatchingMode)
@given(results=groups_with_gaps())
def test_a_group_is_settled_exactly_when_no_completion_changes_a_hit(mode, results):
    outcomes = {str(outcome(match(filled, mode))) for filled in completions(results)}
    gaps = unsettled(results, mode)
    if mode is not MatchingMode.GREEDY_FIRST or results.missing.sum() == 1:
        assert (len(gaps.groups) > 0) == (len(outcomes) > 1)
    elif len(gaps.groups) == 0:  # greedy with many gaps may call unsettled what changes no hit
        assert len(outcomes) == 1


@pytest.mark.parametrize("mode", MatchingMode)
@settings(max_examples=60)
@given(results=groups_with_gaps())
def test_the_extremes_enclose_every_completion(mode, results):
    gaps = unsettled(results, mode)
    names = UNPAIRED if mode is MatchingMode.ANY else PAIRED
    for measure in map(parse_measure, names):
        values = [measure.values(match(filled, mode))[0] for filled in completions(results)]
        if not len(gaps.groups):
            assert min(values) == max(values)
            continue
        extremes = [measure.values(extreme)[0] for extreme in gaps.extremes]
        assert max(values) <= max(extremes)
        if mode is not MatchingMode.GREEDY_FIRST:
            assert min(values) == min(extremes)
            assert max(values) == max(extremes)


def test_greedy_can_lose_a_hit_to_a_new_match():
    # Result 0 matches expected 1 and perhaps 0, result 1 matches expected 0 alone.
    relevant, missing = np.array([False, True, True, False]), np.array([True, False, False, False])
    results = JudgedResults(relevant, np.array([2]), np.array([2]), missing)
    gaps = unsettled(results, MatchingMode.GREEDY_FIRST)
    recall = parse_measure("recall")
    assert [recall.values(extreme)[0] for extreme in gaps.extremes] == [1.0, 0.5, 1.0]
    assert len(unsettled(results, MatchingMode.MAXIMUM).groups) == 0


def test_a_gap_that_greedy_never_reaches_settles_nothing_new():
    # Both expected texts are taken by the time of result 2, and result 0 has its first choice.
    relevant = np.array([True, False, False, True, False, False])
    missing = np.array([False, True, False, False, True, True])
    results = JudgedResults(relevant, np.array([3]), np.array([2]), missing)
    assert len(unsettled(results, MatchingMode.GREEDY_FIRST).groups) == 0


def test_only_groups_with_open_gaps_are_named():
    relevant = np.array([True, False, True, True, False])
    missing = np.array([False, True, False, False, True])
    results = JudgedResults(relevant, np.array([1, 1, 1, 0, 2]), np.array([1, 1, 1, 4, 1]), missing)
    for mode in MatchingMode:
        gaps = unsettled(results, mode)
        # Group 4: its first result may take the only text, and only ANY minds the second one.
        assert gaps.groups.tolist() == ([1, 4] if mode is MatchingMode.ANY else [1])
        assert all(extreme.n_queries == len(gaps.groups) for extreme in gaps.extremes)


def test_a_gap_that_changes_only_the_pairing_is_settled():
    relevant, missing = np.array([False, True]), np.array([True, False])
    results = JudgedResults(relevant, np.array([1]), np.array([2]), missing)
    assert len(unsettled(results, MatchingMode.GREEDY_FIRST).groups) == 0


def test_nothing_is_missing():
    results = JudgedResults(np.array([True]), np.array([1]), np.array([1]))
    assert len(unsettled(results, MatchingMode.ANY).groups) == 0
