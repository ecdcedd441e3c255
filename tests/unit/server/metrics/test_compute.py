"""Tables of metrics: which queries count, means, bounds, counts, signatures, merging."""

from __future__ import annotations

import numpy as np
import pytest
from judged.values.choices import Matching, NoGold
from judged_server.metrics.compute import (
    Judging,
    SettledOptions,
    compute_judged,
    compute_merged,
)
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures import parse_metrics

SOME = parse_metrics(["recall", "precision@2", "mrr"])


def judged(relevant, n_retrieved, n_expected, missing=None, duplicates=0):
    return JudgedResults(
        np.array(relevant, np.bool_),
        np.array(n_retrieved, np.int64),
        np.array(n_expected, np.int64),
        None if missing is None else np.array(missing, np.bool_),
        duplicates,
    )


# A full hit, nothing expected, nothing retrieved, half of it found.
MIXED = judged([1, 0, 1, 0, 0], [1, 2, 0, 2], [1, 0, 3, 2], duplicates=7)


@pytest.mark.parametrize(
    ("policy", "rows", "recall", "skipped"),
    [
        (NoGold.SKIP, [0, 2, 3], [1.0, 0.0, 0.5], 1),
        (NoGold.ZERO, [0, 1, 2, 3], [1.0, 0.0, 0.0, 0.5], 0),
    ],
)
def test_queries_without_gold(policy, rows, recall, skipped):
    table = compute_judged(SOME, MIXED, SettledOptions(no_gold=policy))
    assert table.rows.tolist() == rows
    assert table.columns[0].values.tolist() == recall
    assert table.columns[0].mean == sum(recall) / len(recall)
    assert table.columns[0].n == table.counts.evaluated == len(rows)
    assert table.counts.queries == 4
    assert table.counts.skipped_no_gold == skipped
    assert table.counts.duplicates == 7
    assert table.counts.retrieved == (3 if policy is NoGold.SKIP else 5)


def test_a_missing_verdict_is_never_a_wrong_one():
    # One query is complete and half right; the other hangs on its one missing verdict.
    results = judged([1, 0, 0], [2, 1], [1, 1], missing=[0, 0, 1])
    table = compute_judged(parse_metrics(["precision", "mrr"]), results, SettledOptions())
    precision, mrr = table.columns
    assert table.rows.tolist() == [0]
    assert (precision.mean, precision.lower, precision.upper) == (0.5, 0.25, 0.75)
    assert (mrr.mean, mrr.lower, mrr.upper) == (1.0, 0.5, 1.0)
    assert (table.counts.evaluated, table.counts.skipped_unsettled) == (1, 1)


def test_the_bounds_of_greedy_take_in_what_a_new_match_can_cost():
    results = judged([0, 1, 1, 0], [2], [2], missing=[1, 0, 0, 0])
    recall = compute_judged(SOME, results, SettledOptions()).columns[0]
    assert (recall.mean, recall.lower, recall.upper) == (None, 0.5, 1.0)


GREEDY, ANY = SettledOptions(), SettledOptions(Matching.ANY)


def results(*matrices, gaps=()):
    """Judged results of groups, each a matrix of 0 and 1; `gaps` are flat places."""
    shapes = [np.array(matrix).shape for matrix in matrices]
    relevant = np.concatenate([np.array(matrix, np.bool_).ravel() for matrix in matrices])
    missing = np.zeros(len(relevant), np.bool_)
    missing[list(gaps)] = True
    return JudgedResults(
        relevant & ~missing,
        np.array([shape[0] for shape in shapes], np.int64),
        np.array([shape[1] for shape in shapes], np.int64),
        missing if gaps else None,
    )


ONE = results([[1, 0], [1, 0]], [[0], [1]], [[1]])
OTHER = results([[1, 0], [0, 1]], [[1], [1]], [[0]])


def bound(*names):
    return [measure.judged_by("j|v1") for measure in parse_metrics(names)]


def test_columns_come_in_the_order_asked_for():
    measures = parse_metrics(["recall_exact", "mrr", "precision_exact@2"])
    table = compute_merged(
        [
            Judging([measures[1]], ONE, GREEDY),
            Judging(bound("recall_exact", "precision_exact@2"), OTHER, ANY),
        ],
        measures,
    )
    assert [column.name for column in table.columns] == [str(measure) for measure in measures]
    assert [column.values.tolist() for column in table.columns] == [
        [1.0, 1.0, 0.0],
        [1.0, 0.5, 1.0],
        [1.0, 1.0, 0.0],
    ]
    assert [column.lower for column in table.columns] == [None] * 3


class TestMissingVerdicts:
    """The second group's first verdict is missing under the other judge."""

    measures = parse_metrics(["mrr", "recall_exact"])
    other = results([[1, 0], [0, 0]], [[0], [0]], [[0]], gaps=[4])

    def table(self):
        return compute_merged(
            [
                Judging([self.measures[0]], ONE, GREEDY),
                Judging(bound("recall_exact"), self.other, ANY),
            ],
            self.measures,
        )

    def test_a_query_unsettled_under_one_judge_is_in_no_mean(self):
        table = self.table()
        assert table.rows.tolist() == [0, 2]
        assert [column.values.tolist() for column in table.columns] == [[1.0, 1.0], [0.5, 0.0]]
        assert [column.mean for column in table.columns] == [1.0, 0.25]
        counts = table.counts
        assert (counts.queries, counts.evaluated, counts.skipped_unsettled) == (3, 2, 1)
        assert counts.retrieved == 3

    def test_bounds_speak_of_all_queries(self):
        table = self.table()
        own, family = table.columns
        assert own.lower == own.upper == pytest.approx((1 + 0.5 + 1) / 3)
        assert (family.lower, family.upper) == pytest.approx((0.5 / 3, 1.5 / 3))
        assert table.open_rows.tolist() == [0, 1, 2]
        assert own.bounds.tolist() == [[1.0, 0.5, 1.0]] * 2
        assert family.bounds.shape == (2, 3)
        assert (
            family.lower == compute_judged(bound("recall_exact"), self.other, ANY).columns[0].lower
        )
