"""The three matching modes against literal readings of their definitions."""

from __future__ import annotations

import itertools
import math
from itertools import combinations, permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged.values.choices import Matching
from judged_server.metrics.compute import SettledOptions, compute_judged, compute_trec
from judged_server.metrics.matching import JudgedResults, earliest_hits, grades_of, match, unsettled
from judged_server.metrics.measures import parse_measure, parse_metrics

from tests.trec import Topic, qrels_of, run_of


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
    rankings = match(judged(groups), Matching.GREEDY_FIRST)
    assert hits_of(rankings)[: len(groups)] == [literal_greedy(group) for group in groups]
    assert rankings.n_relevant.tolist() == [group.shape[1] for group in groups]


@pytest.mark.parametrize("shape", [(200, 3), (3, 200), (40, 40), (1, 500), (500, 1)])
def test_greedy_on_long_and_wide_groups(shape):
    rng = np.random.default_rng(5)
    groups = [rng.random(shape) < density for density in (0.01, 0.1, 0.5, 1.0)]
    hits = hits_of(match(judged(groups), Matching.GREEDY_FIRST))
    assert hits == [literal_greedy(group) for group in groups]


@given(st.lists(matrices(), max_size=4))
def test_maximum_has_the_most_and_the_earliest_hits(groups):
    rankings = match(judged(groups), Matching.MAXIMUM)
    assert hits_of(rankings)[: len(groups)] == [brute_force_maximum(group) for group in groups]


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
    rankings = match(judged(groups), Matching.ANY)
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


@pytest.mark.parametrize("mode", Matching)
@given(results=groups_with_gaps())
def test_a_group_is_settled_exactly_when_no_completion_changes_a_hit(mode, results):
    outcomes = {str(outcome(match(filled, mode))) for filled in completions(results)}
    gaps = unsettled(results, mode)
    if mode is not Matching.GREEDY_FIRST or results.missing.sum() == 1:
        assert (len(gaps.groups) > 0) == (len(outcomes) > 1)
    elif len(gaps.groups) == 0:  # greedy with many gaps may call unsettled what changes no hit
        assert len(outcomes) == 1


@pytest.mark.parametrize("mode", Matching)
@settings(max_examples=60)
@given(results=groups_with_gaps())
def test_the_extremes_enclose_every_completion(mode, results):
    gaps = unsettled(results, mode)
    names = UNPAIRED if mode is Matching.ANY else PAIRED
    for measure in map(parse_measure, names):
        values = [measure.values(match(filled, mode))[0] for filled in completions(results)]
        if not len(gaps.groups):
            assert min(values) == max(values)
            continue
        extremes = [measure.values(extreme)[0] for extreme in gaps.extremes]
        assert max(values) <= max(extremes)
        if mode is not Matching.GREEDY_FIRST:
            assert min(values) == min(extremes)
            assert max(values) == max(extremes)


GRADED = ["ndcg@3", "ndcg", "ndcg(gain=exponential)@5", "err(max_grade=3)"]
BY_SCALE = ["rbp(p=0.5)", "context_precision"]
"""They divide grades by the top of the scale, which qrels don't tell."""
BINARY = ["precision@2", "recall", "mrr", "ap"]


def results_of(grids, missing=None):
    """Judged results of groups of grades [retrieved][expected]; relevant from grade 2 on."""
    flat = [grade for grid in grids for row in grid for grade in row]
    return JudgedResults(
        np.array([grade >= 2 for grade in flat], np.bool_),
        np.array([len(grid) for grid in grids], np.int64),
        np.array([len(grid[0]) for grid in grids], np.int64),
        None if missing is None else np.array(missing, np.bool_),
        gains=np.array(flat, np.float64),
        max_grade=3,
    )


def values(metrics, results, mode=Matching.GREEDY_FIRST):
    table = compute_judged(parse_metrics(metrics), results, SettledOptions(mode))
    return {column.name: column.values.tolist() for column in table.columns}


def test_an_expected_text_that_nothing_matches_is_a_document_of_the_highest_grade():
    [ndcg] = values(["ndcg@3"], results_of([[[1, 1], [0, 0], [2, 2]]]))["ndcg@3"]
    ideal = 3 + 2 / math.log2(3) + 1 / 2  # one of the two is not found
    assert ndcg == pytest.approx((1 + 2 / 2) / ideal)


@settings(max_examples=60)
@given(
    st.lists(
        st.lists(st.integers(0, 3), min_size=1, max_size=7).map(lambda g: [[x] for x in g]),
        min_size=1,
        max_size=4,
    )
)
def test_graded_metrics_are_those_of_qrels_with_the_same_grades(grids):
    found = values(GRADED, results_of(grids))
    topics, run = [], []
    for number, grid in enumerate(grids):
        names = [f"d{rank}" for rank in range(len(grid))]
        grades = [row[0] for row in grid]
        if max(grades) < 2:  # what was expected is not among them
            grades.append(3)
        judged = [*names, "missed"][: len(grades)]
        topics.append(Topic(str(number), judged, [float(grade) for grade in grades]))
        run.append(Topic(str(number), names, []))
    table = compute_trec(parse_metrics(GRADED), qrels_of(topics), run_of(run), SettledOptions())
    for column in table.columns:
        assert found[column.name] == pytest.approx(column.values.tolist())


def test_grades_are_divided_by_the_top_of_their_scale():
    found = values(BY_SCALE, results_of([[[2], [1]]]))
    assert found["rbp(p=0.5)"] == [pytest.approx(0.5 * (2 / 3 + 1 / 3 / 2))]
    assert found["context_precision"] == [pytest.approx((2 / 3 + 1 / 3 / 2) / 1.5)]


def test_metrics_that_weigh_no_grades_take_the_threshold():
    results = results_of([[[2], [1], [3]], [[1], [3], [0]]])
    binary = JudgedResults(results.relevant, results.n_retrieved, results.n_expected)
    assert values(BINARY, results) == values(BINARY, binary)


def test_scores_are_grades_again():
    scores = np.array([0, 1, 2, 3]) / 3
    assert grades_of(scores, 3).tolist() == [0, 1, 2, 3]
    assert grades_of(np.arange(11) / 10, 10).tolist() == list(range(11))


grids = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=1, max_size=4)


@settings(max_examples=80)
@given(grids, st.data(), st.sampled_from([Matching.GREEDY_FIRST, Matching.MAXIMUM]))
def test_bounds_hold_every_outcome_of_missing_grades(grid, data, mode):
    n = 2 * len(grid)
    open_ = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3, unique=True))
    missing = [place in open_ for place in range(n)]
    table = compute_judged(
        parse_metrics(GRADED + BY_SCALE), results_of([grid], missing), SettledOptions(mode)
    )
    assert table.counts.skipped_unsettled == 1
    for outcome in itertools.product(range(4), repeat=len(open_)):
        flat = [grade for row in grid for grade in row]
        for place, grade in zip(open_, outcome, strict=True):
            flat[place] = grade
        whole = results_of([[flat[at : at + 2] for at in range(0, n, 2)]])
        for column, (_, [value]) in zip(
            table.columns, values(GRADED + BY_SCALE, whole, mode).items(), strict=True
        ):
            assert column.lower - 1e-9 <= value <= column.upper + 1e-9, column.name
