"""Human labels joined with the machine's table: which values meet."""

import numpy as np
import pytest
from judged.values.choices import Matching, NoGold
from judged_server.metrics.compute import (
    HumanValues,
    SettledOptions,
    compute_judged,
    correct,
    merge_values,
    values_of_labels,
)
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures import parse_measure
from judged_server.statistics.prediction_powered import correct_mean

MEASURES = [parse_measure(name) for name in ("precision@2", "recall", "ap", "ndcg@3")]
DEFAULTS = SettledOptions()
GREEDY = Matching.GREEDY_FIRST


def world(n=120, seed=3, threshold=0.5):
    """n queries of 3 results by 2 expected texts: verdicts, and what people would say."""
    rng = np.random.Generator(np.random.PCG64(seed))
    truth = rng.random(n * 6) < 0.4
    scores = np.clip(np.where(truth, 0.65, 0.35) + rng.normal(0, 0.15, n * 6), 0, 1)
    threes, twos = np.full(n, 3), np.full(n, 2)
    return JudgedResults(scores >= threshold, threes, twos), truth


def contexts_of(queries):
    return (np.asarray(queries)[:, None] * 6 + np.arange(6)).ravel()


def by_labels(table, results, queries, labels, mode=GREEDY, **more):
    queries = np.asarray(queries)
    values = values_of_labels(MEASURES, results, queries, labels, mode)
    return correct(table, HumanValues(queries, values), **more)


def corrected(results, truth, queries, options=DEFAULTS, **more):
    table = compute_judged(MEASURES, results, options)
    labels = truth[contexts_of(queries)]
    return by_labels(table, results, queries, labels, options.matching, **more)


def truth_table(results, truth, options=DEFAULTS):
    whole = JudgedResults(truth, results.n_retrieved, results.n_expected)
    return compute_judged(MEASURES, whole, options)


@pytest.mark.parametrize("mode", [GREEDY, Matching.MAXIMUM])
def test_the_human_value_is_the_same_metric_of_the_labels(mode):
    results, truth = world()
    options = SettledOptions(mode)
    queries = [90, 2, 3, 50, 7, 44]  # in no order
    table = corrected(results, truth, queries, options)
    human = truth_table(results, truth, options)
    for column, own in zip(table.columns, human.columns, strict=True):
        places = np.array(sorted(queries))
        assert column.corrected == correct_mean(column.values, own.values[places], places)
        assert column.corrected.naive.value == column.mean


def test_labels_of_a_query_without_a_machine_value_are_left_out_and_counted():
    results, truth = world(n=6)
    n_expected = results.n_expected.copy()
    missing = np.zeros(36, np.bool_)
    missing[6:12] = True  # query 1
    relevant = results.relevant & ~missing
    results = JudgedResults(relevant, results.n_retrieved, n_expected, missing)
    table = corrected(results, truth, [0, 1, 2, 3])
    for column in table.columns:
        assert column.corrected.n_labelled == 3
        assert column.corrected.n == 5
        assert any("1 labelled queries have no value" in w for w in column.corrected.warnings)


def test_a_query_without_gold_counts_where_the_policy_counts_it():
    relevant = np.array([True, False, True, True])
    results = JudgedResults(relevant, np.array([2, 2, 2]), np.array([1, 0, 1]))
    for policy, n in ((NoGold.SKIP, 2), (NoGold.ZERO, 3)):
        options = SettledOptions(no_gold=policy)
        table = compute_judged(MEASURES, results, options)
        done = by_labels(table, results, [0, 1, 2], relevant)
        assert [column.corrected.n_labelled for column in done.columns] == [n] * 4


def test_values_that_the_caller_brings_meet_their_queries():
    machine = [[0.1, 0.9, 0.5, 0.4, 0.8], [1.0, 0.0, 1.0, 0.0, 1.0]]
    table = merge_values(MEASURES[:2], np.array(machine), 5)
    human = HumanValues(np.array([4, 0, 2]), np.array([[0.7, 0.2, 0.5], [1.0, 0.0, 1.0]]))
    done = correct(table, human, confidence=0.9)
    places = np.array([0, 2, 4])
    assert done.columns[0].corrected == correct_mean(
        np.array(machine[0]), np.array([0.2, 0.5, 0.7]), places, confidence=0.9
    )
