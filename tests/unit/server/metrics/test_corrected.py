"""Human labels joined with the machine's table: which values meet, and the families of bounds."""

import numpy as np
import pytest
from judged.values.choices import Matching, NoGold
from judged_server.metrics.compute import compute_judged, merge_values
from judged_server.metrics.corrected import (
    MAX_STEPS,
    HumanLabels,
    HumanValues,
    correct_judged,
    correct_values,
)
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures.names import parse_measure
from judged_server.metrics.table import MetricOptions
from judged_server.statistics.prediction_powered import correct_mean

MEASURES = [parse_measure(name) for name in ("precision@2", "recall", "ap", "ndcg@3")]
DEFAULTS = MetricOptions()
GREEDY = Matching.GREEDY_FIRST


def world(n=120, seed=3, threshold=0.5):
    """n queries of 3 results by 2 expected texts: scores, verdicts, and what people would say."""
    rng = np.random.Generator(np.random.PCG64(seed))
    truth = rng.random(n * 6) < 0.4
    scores = np.clip(np.where(truth, 0.65, 0.35) + rng.normal(0, 0.15, n * 6), 0, 1)
    threes, twos = np.full(n, 3), np.full(n, 2)
    return JudgedResults(scores >= threshold, threes, twos), scores, truth


def contexts_of(queries):
    return (np.asarray(queries)[:, None] * 6 + np.arange(6)).ravel()


def corrected(results, scores, truth, queries, options=DEFAULTS, **more):
    table = compute_judged(MEASURES, results, options)
    labels = HumanLabels(np.asarray(queries), truth[contexts_of(queries)])
    return correct_judged(table, MEASURES, results, scores, labels, options.matching, **more)


def truth_table(results, truth, options=DEFAULTS):
    whole = JudgedResults(truth, results.n_retrieved, results.n_expected)
    return compute_judged(MEASURES, whole, options)


@pytest.mark.parametrize("mode", [GREEDY, Matching.MAXIMUM])
def test_the_human_value_is_the_same_metric_of_the_labels(mode):
    results, scores, truth = world()
    options = MetricOptions(mode)
    queries = [90, 2, 3, 50, 7, 44]  # in no order
    table = corrected(results, scores, truth, queries, options)
    human = truth_table(results, truth, options)
    for column, own in zip(table.columns, human.columns, strict=True):
        places = np.array(sorted(queries))
        assert column.corrected == correct_mean(column.values, own.values[places], places)
        assert column.corrected.naive.value == column.mean


def test_labels_of_a_query_without_a_machine_value_are_left_out_and_counted():
    results, scores, truth = world(n=6)
    n_expected = results.n_expected.copy()
    missing = np.zeros(36, np.bool_)
    missing[6:12] = True  # query 1
    relevant = results.relevant & ~missing
    results = JudgedResults(relevant, results.n_retrieved, n_expected, missing)
    table = corrected(results, scores, truth, [0, 1, 2, 3])
    for column in table.columns:
        assert column.corrected.n_labelled == 3
        assert column.corrected.n == 5
        assert any("1 labelled queries have no value" in w for w in column.corrected.warnings)


def test_a_query_without_gold_counts_where_the_policy_counts_it():
    relevant = np.array([True, False, True, True])
    results = JudgedResults(relevant, np.array([2, 2, 2]), np.array([1, 0, 1]))
    labels = HumanLabels(np.array([0, 1, 2]), relevant)
    for policy, n in ((NoGold.SKIP, 2), (NoGold.ZERO, 3)):
        options = MetricOptions(no_gold=policy)
        table = compute_judged(MEASURES, results, options)
        done = correct_judged(table, MEASURES, results, None, labels, GREEDY)
        assert [column.corrected.n_labelled for column in done.columns] == [n] * 4


def test_values_that_the_caller_brings_meet_their_queries():
    machine = [[0.1, 0.9, 0.5, 0.4, 0.8], [1.0, 0.0, 1.0, 0.0, 1.0]]
    table = merge_values(MEASURES[:2], machine, 5)
    human = HumanValues(np.array([4, 0, 2]), np.array([[0.7, 0.2, 0.5], [1.0, 0.0, 1.0]]))
    done = correct_values(table, human, confidence=0.9)
    places = np.array([0, 2, 4])
    assert done.columns[0].corrected == correct_mean(
        np.array(machine[0]), np.array([0.2, 0.5, 0.7]), places, confidence=0.9
    )
    assert done.columns[0].query_lower is None


@pytest.mark.parametrize("with_scores", [True, False])
def test_bounds_enclose_values_and_most_of_the_truth(with_scores):
    results, scores, truth = world(n=600)
    queries = np.arange(200)
    table = corrected(results, scores if with_scores else None, truth, queries, per_query=True)
    human = truth_table(results, truth)
    for column, own in zip(table.columns, human.columns, strict=True):
        assert (column.query_lower >= 0).all()
        assert (column.query_lower <= column.values).all()
        assert (column.values <= column.query_upper).all()
        assert (column.query_upper <= 1).all()
        # 0.025 on each side are promised over draws of labels; one draw strays by 0.014 or so.
        assert np.mean(own.values[200:] < column.query_lower[200:] - 1e-9) < 0.08
        assert np.mean(own.values[200:] > column.query_upper[200:] + 1e-9) < 0.08


def test_fresh_queries_are_missed_no_more_often_than_promised():
    below, above, draws = np.zeros(4), np.zeros(4), 60
    for seed in range(draws):
        results, scores, truth = world(n=160, seed=seed)
        table = corrected(results, scores, truth, np.arange(60), per_query=True)
        for i, own in enumerate(truth_table(results, truth).columns):
            column = table.columns[i]
            below[i] += np.mean(own.values[60:] < column.query_lower[60:] - 1e-12)
            above[i] += np.mean(own.values[60:] > column.query_upper[60:] + 1e-12)
    slack = 3 * 0.03 / np.sqrt(draws)
    assert (below / draws <= 0.025 + slack).all()
    assert (above / draws <= 0.025 + slack).all()


def test_bounds_of_scores_are_the_metric_under_other_thresholds():
    results, scores, truth = world(n=200)
    table = corrected(results, scores, truth, np.arange(100), per_query=True)
    others = scores[scores < 0.5]
    lowered = [
        compute_judged(
            MEASURES,
            JudgedResults(scores >= threshold, results.n_retrieved, results.n_expected),
            MetricOptions(),
        )
        for threshold in [0.5, *np.linspace(others.max(), 0, MAX_STEPS)]
    ]
    for i, column in enumerate(table.columns):
        highest = np.maximum.accumulate([t.columns[i].values for t in lowered])
        assert any(np.array_equal(column.query_upper, row) for row in highest)


def test_scores_that_no_bar_can_cut_give_a_margin():
    results, _, truth = world(n=200)
    exact = results.relevant.astype(np.float64)
    queries = np.arange(100)
    by_exact = corrected(results, exact, truth, queries, per_query=True)
    by_none = corrected(results, None, truth, queries, per_query=True)
    for a, b in zip(by_exact.columns, by_none.columns, strict=True):
        np.testing.assert_array_equal(a.query_upper, b.query_upper)
        np.testing.assert_array_equal(a.query_lower, b.query_lower)
