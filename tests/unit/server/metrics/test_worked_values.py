"""Values worked out by hand that any correct build must reproduce."""

import numpy as np
import pytest
from judged.values.choices import Matching
from judged_server.metrics.compute import SettledOptions, compute_gains, compute_judged
from judged_server.metrics.input.judged_ids import JudgedIds
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures import parse_metrics


def matched_by_id(retrieved, relevant):
    """The results of one query whose documents are matched by id."""
    ids = JudgedIds.of([(list(retrieved), list(relevant), {})])
    n = np.array([len(retrieved)])
    return JudgedResults(np.zeros(0, np.bool_), n, np.array([0]), judged_ids=ids)


def by_id(retrieved, relevant, names):
    """The metrics of one query whose documents are matched by id."""
    results = matched_by_id(retrieved, relevant)
    table = compute_judged(parse_metrics(names), results, SettledOptions())
    return {column.name: column.mean for column in table.columns}


def by_relevance(relevance, n_relevant, names):
    table = compute_gains(parse_metrics(names), [relevance], [[1] * n_relevant], SettledOptions())
    return {column.name: column.mean for column in table.columns}


def test_two_results_of_which_one_matches():
    results = JudgedResults(np.array([True, False, False, False]), np.array([2]), np.array([2]))
    names = ["recall@2", "precision@2", "hit_rate@2", "mrr@2", "ndcg@2", "ap@2"]
    for mode in (Matching.GREEDY_FIRST, Matching.MAXIMUM):
        table = compute_judged(parse_metrics(names), results, SettledOptions(matching=mode))
        means = [column.mean for column in table.columns]
        assert means == pytest.approx([0.5, 0.5, 1, 1, 0.613147, 0.5], abs=1e-6)


def test_four_documents_against_three():
    names = ["recall@4", "precision@4", "ndcg@4", "ap@4"]
    assert by_id(["d1", "d5", "d2", "d9"], ["d1", "d2", "d3"], names) == pytest.approx(
        {"recall@4": 2 / 3, "precision@4": 0.5, "ndcg@4": 0.703918, "ap@4": 0.555556}, abs=1e-6
    )


def test_five_ranks_with_three_relevant():
    assert by_relevance([1, 0, 1, 1, 0], 3, ["ndcg@5", "ap@5"]) == pytest.approx(
        {"ndcg@5": 0.906025, "ap@5": 0.805556}, abs=1e-6
    )


@pytest.mark.parametrize(
    ("k", "precision", "recall", "f1"), [(3, 0.6667, 0.6667, 0.6667), (10, 0.2, 0.6667, 0.307692)]
)
def test_precision_recall_and_f1_at_a_k_within_and_beyond_the_ranking(k, precision, recall, f1):
    names = [f"precision@{k}", f"recall@{k}", f"f1@{k}"]
    means = by_id(["a", "b", "c", "d"], ["a", "c", "z"], names)
    assert list(means.values()) == pytest.approx([precision, recall, f1], abs=5e-5)


@pytest.mark.parametrize("mode", [Matching.GREEDY_FIRST, Matching.MAXIMUM])
def test_a_repeated_document_never_counts_twice(mode):
    retrieved, relevant = ["a", "a", "b", "x"], ["a", "b", "c"]
    undropped = by_id(retrieved, relevant, ["ndcg@4"])["ndcg@4"]
    dropped = by_id(list(dict.fromkeys(retrieved)), relevant, ["ndcg@4"])["ndcg@4"]
    assert undropped < dropped < 1.0
    assert dropped == pytest.approx((1 + 0.63092975) / (1 + 0.63092975 + 0.5), abs=1e-7)
    results = matched_by_id(retrieved, relevant)
    table = compute_judged(parse_metrics(["ndcg@4"]), results, SettledOptions(matching=mode))
    assert table.columns[0].mean == undropped


def test_context_precision_of_graded_relevance():
    table = compute_gains(
        parse_metrics(["context_precision", "context_precision@2"]),
        [[1, 0.5, 0]],
        [[1, 0.5]],
        SettledOptions(),
    )
    assert [c.mean for c in table.columns] == pytest.approx([0.681818, 1.25 / 1.5], abs=1e-6)


@pytest.mark.parametrize("mode", Matching)
@pytest.mark.parametrize(
    ("retrieved", "relevant", "expected"),
    [("abcd", "acz", 0.5345864582732369), ("ab", "ab", 0.75), ("a", "a", 1.0)],
)
def test_hybrid_log_rank_is_the_same_in_every_mode_where_ids_match(
    mode, retrieved, relevant, expected
):
    results = matched_by_id(retrieved, relevant)
    table = compute_judged(parse_metrics(["hybrid_log_rank"]), results, SettledOptions(mode))
    assert table.columns[0].mean == pytest.approx(expected, abs=1e-15)
