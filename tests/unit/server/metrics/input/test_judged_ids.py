"""Groups that are matched by document id have the numbers of qrels with the same grades."""

import numpy as np
import pytest
from judged.values.choices import Matching
from judged_server.metrics.compute import SettledOptions, compute_judged, compute_trec
from judged_server.metrics.input.judged_ids import JudgedIds
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures import parse_metrics

from tests.trec import Topic, qrels_of, run_of

METRICS = [
    "ndcg@10",
    "ndcg(gain=exponential)@3",
    "ndcg",
    "err(max_grade=4)@5",
    "rbp@5",
    "ap",
    "mrr",
    "recall@2",
    "precision@3",
    "r_precision",
    "context_precision",
    "hit_rate@1",
    "hybrid_log_rank",
    "bpref",
    "infap",
    "judged@3",
    "rbp_residual",
]


def results_of(*groups):
    """Results of groups given as (found, relevant, grades), all matched by id."""
    n = np.array([len(found) for found, _, _ in groups])
    ids = JudgedIds.of(groups)
    return JudgedResults(np.zeros(0, np.bool_), n, np.zeros_like(n), judged_ids=ids)


def values_of(table):
    return {column.name: column.values.tolist() for column in table.columns}


def under_qrels(groups):
    """The table of the same groups as qrels and a run in the given order."""
    topics = [
        Topic(str(i), list(grades or relevant), list(grades.values()) or [1] * len(relevant))
        for i, (_, relevant, grades) in enumerate(groups)
    ]
    run = [Topic(str(i), found) for i, (found, _, _) in enumerate(groups)]
    return compute_trec(parse_metrics(METRICS), qrels_of(topics), run_of(run), SettledOptions())


CASES = {
    "grades of TREC-COVID": [
        (["b", "a", "c"], (), {"a": 2, "b": 1, "c": 0}),
        (["a", "x", "d"], (), {"d": 2, "a": 1}),
        (["b", "a"], (), {"b": 0}),
    ],
    "relevant ids alone": [(["x", "a", "y", "b"], ("a", "b", "c"), {}), (["a"], ("z",), {})],
    "both kinds": [(["x", "a"], ("a",), {}), (["p", "q", "r"], (), {"r": 3, "p": 0, "z": 1})],
    "never judged": [(["u", "n", "a", "b"], (), {"a": 1, "b": 4, "u": -1, "n": 0, "m": 0})],
    "only what is not relevant": [(["a", "b"], (), {"a": 0, "b": -2}), ([], (), {"c": 0})],
    "nothing found": [([], (), {"a": 2}), (["x"] * 0, ("b",), {})],
}


@pytest.mark.parametrize("groups", CASES.values(), ids=CASES.keys())
def test_the_numbers_are_those_of_qrels(groups):
    expected = under_qrels(groups)
    found = compute_judged(parse_metrics(METRICS), results_of(*groups), SettledOptions())
    assert values_of(found) == values_of(expected)
    assert found.counts.evaluated == expected.counts.evaluated == len(groups)
    assert found.counts.skipped_no_gold == 0


def test_random_grades_and_rankings():
    rng = np.random.default_rng(7)
    names = [f"d{i}" for i in range(12)]
    groups = []
    for _ in range(200):
        judged = rng.permutation(names)[: rng.integers(1, 9)].tolist()
        grades = dict(zip(judged, rng.integers(-1, 5, len(judged)).tolist(), strict=True))
        groups.append((rng.permutation(names)[: rng.integers(0, 12)].tolist(), (), grades))
    found = compute_judged(parse_metrics(METRICS), results_of(*groups), SettledOptions())
    assert values_of(found) == values_of(under_qrels(groups))
    assert found.counts.unjudged == under_qrels(groups).counts.unjudged


def test_a_judge_with_grades_leaves_those_of_ids_alone():
    """One group is judged from 0 to 3, one has grades by id, one has relevant ids alone."""
    ids = JudgedIds.of(
        [(["", ""], (), {}), (["b", "a"], (), {"a": 2, "b": 1}), (["x", "a"], ("a",), {})]
    )
    results = JudgedResults(
        np.array([True, False]),
        np.array([2, 2, 2]),
        np.array([1, 0, 0]),
        gains=np.array([2.0, 0.0]),
        max_grade=3,
        judged_ids=ids,
    )
    table = compute_judged(
        parse_metrics(["rbp(p=0.5)@2", "ndcg@2", "mrr"]), results, SettledOptions()
    )
    rbp, ndcg, mrr = (column.values.tolist() for column in table.columns)
    assert rbp == pytest.approx([0.5 * 2 / 3, 0.5 * (0.5 + 0.5), 0.25])
    assert ndcg == pytest.approx([1.0, (1 + 2 / np.log2(3)) / (2 + 1 / np.log2(3)), 1 / np.log2(3)])
    assert mrr == [1.0, 1.0, 0.5]
    assert (
        table.columns[1].signature
        == "ndcg@2|gain:linear|matching:greedy_first|no_gold:skip|grades:0-3|ids:graded|v1"
    )


@pytest.mark.parametrize("mode", Matching)
def test_another_piece_of_a_document_is_a_hit_where_results_are_not_paired(mode):
    results = results_of((["a", "a", "b"], (), {"a": 2, "b": 1, "c": 1}))
    table = compute_judged(
        parse_metrics(["precision", "recall", "mrr"]), results, SettledOptions(mode)
    )
    precision = 1.0 if mode is Matching.ANY else 2 / 3
    assert [column.mean for column in table.columns] == [precision, 2 / 3, 1.0]


def test_another_piece_of_a_judged_document_is_judged_and_changes_no_count_of_others():
    grades = {"a": 2, "b": 1, "n": 0}
    values = []
    for pieces in ("a", "x"):
        results = results_of((["a", pieces, "n", pieces, "b"], (), grades))
        table = compute_judged(
            parse_metrics(["judged@4", "bpref", "infap"]), results, SettledOptions()
        )
        values.append([column.mean for column in table.columns])
    assert values == [[1.0, *values[1][1:]], [0.5, *values[1][1:]]]
