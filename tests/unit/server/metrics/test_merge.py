from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from judged_server.errors import InvalidField
from judged_server.metrics.compute import Judging, compute_judged, compute_merged
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures.names import parse_metrics
from judged_server.metrics.table import MatchingMode, MetricOptions, NoGoldPolicy

GREEDY, ANY = MetricOptions(), MetricOptions(MatchingMode.ANY)


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


def test_one_judge_has_the_table_of_its_own():
    measures = parse_metrics(["mrr", "ap"])
    table = compute_merged([Judging(measures, ONE, GREEDY)], measures)
    alone = compute_judged(measures, ONE, GREEDY)
    assert table.counts == alone.counts
    for ours, theirs in zip(table.columns, alone.columns, strict=True):
        assert replace(ours, values=()) == replace(theirs, values=())
        assert ours.values.tolist() == theirs.values.tolist()


def test_a_group_without_gold_is_named_where_the_caller_has_it():
    measures = parse_metrics(["mrr"])
    options = MetricOptions(no_gold=NoGoldPolicy.ERROR)
    one = np.array([1])
    empty = JudgedResults(np.empty(0, np.bool_), one, np.array([0]))
    judgings = [Judging(measures, empty, options)]
    with pytest.raises(InvalidField) as caught:
        compute_merged(judgings, measures, field="runs[0].groups[{}]")
    assert caught.value.field == "runs[0].groups[0]"
    with pytest.raises(InvalidField) as caught:
        compute_merged(judgings, measures)
    assert caught.value.field == "groups[0].expected"


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
        own, family = self.table().columns
        assert own.lower == own.upper == pytest.approx((1 + 0.5 + 1) / 3)
        assert (family.lower, family.upper) == pytest.approx((0.5 / 3, 1.5 / 3))
        assert own.bounds.rows.tolist() == [0, 1, 2]
        assert own.bounds.lowest.tolist() == own.bounds.highest.tolist() == [1.0, 0.5, 1.0]
        assert sorted(family.bounds.rows.tolist()) == [0, 1, 2]
        assert (
            family.lower == compute_judged(bound("recall_exact"), self.other, ANY).columns[0].lower
        )
