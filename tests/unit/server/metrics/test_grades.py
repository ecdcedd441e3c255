"""Grades of a judge as gains, against qrels that hold the same grades."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_server.metrics.compute import compute_judged, compute_trec
from judged_server.metrics.matching import JudgedResults, grades_of
from judged_server.metrics.measures.names import parse_metrics
from judged_server.metrics.table import MatchingMode, MetricOptions

from tests.trec import Topic, qrels_of, run_of

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


def values(metrics, results, mode=MatchingMode.GREEDY_FIRST):
    table = compute_judged(parse_metrics(metrics), results, MetricOptions(mode))
    return {column.name: column.values.tolist() for column in table.columns}


def test_worked_values():
    # Grades 2, 0, 3 of one expected text, which the first result matches: DCG 2 + 3 / 2, ideal
    # 3 + 2 / log2(3).
    [ndcg] = values(["ndcg@3"], results_of([[[2], [0], [3]]]))["ndcg@3"]
    assert ndcg == pytest.approx(3.5 / (3 + 2 / math.log2(3)))


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
    table = compute_trec(parse_metrics(GRADED), qrels_of(topics), run_of(run), MetricOptions())
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


def test_the_signature_names_the_scale():
    table = compute_judged(
        parse_metrics(["ndcg@3", "mrr"]), results_of([[[2]]]), MetricOptions(MatchingMode.MAXIMUM)
    )
    assert [("grades:0-3" in column.signature) for column in table.columns] == [True, False]


def test_scores_are_grades_again():
    scores = np.array([0, 1, 2, 3]) / 3
    assert grades_of(scores, 3).tolist() == [0, 1, 2, 3]
    assert grades_of(np.arange(11) / 10, 10).tolist() == list(range(11))


grids = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=1, max_size=4)


@settings(max_examples=80)
@given(grids, st.data(), st.sampled_from([MatchingMode.GREEDY_FIRST, MatchingMode.MAXIMUM]))
def test_bounds_hold_every_outcome_of_missing_grades(grid, data, mode):
    n = 2 * len(grid)
    open_ = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=3, unique=True))
    missing = [place in open_ for place in range(n)]
    table = compute_judged(
        parse_metrics(GRADED + BY_SCALE), results_of([grid], missing), MetricOptions(mode)
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
