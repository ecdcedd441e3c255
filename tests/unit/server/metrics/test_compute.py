"""Tables of metrics: which queries count, means, bounds, counts, signatures, merging."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from judged_server.domain.names import check_unique
from judged_server.errors import InvalidField
from judged_server.metrics.compute import (
    Judging,
    compute_gains,
    compute_judged,
    compute_merged,
    compute_trec,
    merge_values,
)
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures.formulas import FAMILIES, METRICS
from judged_server.metrics.measures.names import parse_metrics
from judged_server.metrics.table import MatchingMode, MetricOptions, NoGoldPolicy, UnjudgedPolicy

from tests.trec import Topic, qrels_of, run_of

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
        (NoGoldPolicy.SKIP, [0, 2, 3], [1.0, 0.0, 0.5], 1),
        (NoGoldPolicy.ZERO, [0, 1, 2, 3], [1.0, 0.0, 0.0, 0.5], 0),
    ],
)
def test_queries_without_gold(policy, rows, recall, skipped):
    table = compute_judged(SOME, MIXED, MetricOptions(no_gold=policy))
    assert table.rows.tolist() == rows
    assert table.columns[0].values.tolist() == recall
    assert table.columns[0].mean == sum(recall) / len(recall)
    assert table.columns[0].n == table.counts.evaluated == len(rows)
    assert table.counts.queries == 4
    assert table.counts.skipped_no_gold == skipped
    assert table.counts.duplicates == 7
    assert table.counts.retrieved == (3 if policy is NoGoldPolicy.SKIP else 5)


def test_queries_without_gold_can_be_an_error():
    options = MetricOptions(no_gold=NoGoldPolicy.ERROR)
    with pytest.raises(InvalidField) as caught:
        compute_judged(SOME, MIXED, options, field="judged.rankings[{}].expected")
    assert caught.value.field == "judged.rankings[1].expected"
    with pytest.raises(InvalidField) as caught:
        compute_gains(SOME, [[1], [0]], [[1], []], options)
    assert caught.value.field == "gains.rankings[1].relevant_gains"
    compute_judged(SOME, judged([1], [1], [1]), options)


def test_a_table_of_nothing_has_no_mean():
    table = compute_judged(SOME, judged([], [2], [0]), MetricOptions())
    assert [column.mean for column in table.columns] == [None, None, None]
    assert table.counts.skipped_no_gold == 1
    assert compute_judged(SOME, judged([], [], []), MetricOptions()).counts.queries == 0


def test_metrics_that_need_pairs_are_refused_under_any():
    measures = parse_metrics(["recall", "ndcg@10"])
    with pytest.raises(InvalidField) as caught:
        compute_judged(measures, MIXED, MetricOptions(matching=MatchingMode.ANY))
    assert caught.value.field == "metrics[1]"
    assert "MATCHING_MODE_GREEDY_FIRST, MATCHING_MODE_MAXIMUM" in caught.value.rule


def test_any_counts_both_sides_on_their_own():
    # Three results on one of two expected texts.
    results = judged([1, 0, 1, 0, 1, 0], [3], [2])
    names = ["precision", "recall", "f1", "hit_rate", "mrr"]
    table = compute_judged(parse_metrics(names), results, MetricOptions(matching=MatchingMode.ANY))
    assert [column.mean for column in table.columns] == pytest.approx([1, 0.5, 2 / 3, 1, 1])
    assert table.columns[0].signature == "precision|matching:any|no_gold:skip|v1"


def test_a_missing_verdict_is_never_a_wrong_one():
    # One query is complete and half right; the other hangs on its one missing verdict.
    results = judged([1, 0, 0], [2, 1], [1, 1], missing=[0, 0, 1])
    table = compute_judged(parse_metrics(["precision", "mrr"]), results, MetricOptions())
    precision, mrr = table.columns
    assert table.rows.tolist() == [0]
    assert (precision.mean, precision.lower, precision.upper) == (0.5, 0.25, 0.75)
    assert (mrr.mean, mrr.lower, mrr.upper) == (1.0, 0.5, 1.0)
    assert (table.counts.evaluated, table.counts.skipped_unsettled) == (1, 1)


def test_bounds_without_any_settled_query():
    table = compute_judged(SOME, judged([0], [1], [1], missing=[1]), MetricOptions())
    recall = table.columns[0]
    assert (recall.mean, recall.lower, recall.upper, recall.n) == (None, 0.0, 1.0, 0)


def test_bounds_meet_when_the_missing_verdicts_do_not_matter():
    # The only expected text is taken by the first result.
    results = judged([1, 0], [2], [1], missing=[0, 1])
    recall = compute_judged(SOME, results, MetricOptions()).columns[0]
    assert (recall.mean, recall.lower, recall.upper) == (1.0, 1.0, 1.0)


def test_no_bounds_without_missing_verdicts():
    for missing in (None, [0]):
        column = compute_judged(SOME, judged([1], [1], [1], missing), MetricOptions()).columns[0]
        assert (column.lower, column.upper) == (None, None)


def test_the_bounds_of_greedy_take_in_what_a_new_match_can_cost():
    results = judged([0, 1, 1, 0], [2], [2], missing=[1, 0, 0, 0])
    recall = compute_judged(SOME, results, MetricOptions()).columns[0]
    assert (recall.mean, recall.lower, recall.upper) == (None, 0.5, 1.0)


def test_trec_counts_and_signatures():
    qrels = qrels_of([Topic("a", ["x"], [1]), Topic("b", ["x"], [1]), Topic("c", ["x"], [0])])
    run = run_of([Topic("a", ["x", "x"]), Topic("c", ["x"]), Topic("z", ["x"])])
    measures = parse_metrics(["ndcg@10", "ap(divisor=min)@5"])
    table = compute_trec(measures, qrels, run, MetricOptions(no_gold=NoGoldPolicy.ERROR))
    assert table.columns[0].values.tolist() == [1.0, 0.0]
    assert table.columns[0].signature == "ndcg@10|gain:linear|source:trec|v1"
    assert table.columns[1].signature == "ap@5|divisor:min|source:trec|v1"
    counts = table.counts
    assert (counts.queries, counts.evaluated, counts.skipped_missing) == (4, 2, 1)
    assert (counts.skipped_unjudged, counts.duplicates, counts.retrieved) == (1, 1, 2)
    complete = compute_trec(measures, qrels, run, MetricOptions(complete=True))
    assert complete.columns[0].mean == pytest.approx(1 / 3)
    assert complete.columns[0].signature == "ndcg@10|gain:linear|source:trec|complete:true|v1"
    with pytest.raises(InvalidField) as caught:
        compute_trec(measures, qrels, run, MetricOptions(strict_duplicates=True))
    assert caught.value.field == "trec.run[0].document_ids[1]"


def test_gains_skip_queries_with_nothing_to_find():
    table = compute_gains(SOME, [[0, 1], [0]], [[1, 1], []], MetricOptions())
    assert table.rows.tolist() == [0]
    assert table.columns[0].mean == 0.5
    assert table.counts.skipped_no_gold == 1
    assert table.counts.retrieved == 2
    assert table.columns[0].signature == "recall|source:gains|no_gold:skip|v1"


def test_split_and_merged_means_equal_the_whole_to_the_last_bit():
    rng = np.random.default_rng(8)
    gains = [row.tolist() for row in (rng.random((999, 7)) < 0.3) * 1.0]
    measures = parse_metrics(["ndcg@5", "ap", "f1@3"])
    relevant = [[1.0] * 9] * len(gains)
    whole = compute_gains(measures, gains, relevant, MetricOptions())
    parts = [
        compute_gains(measures, gains[i::4], relevant[i::4], MetricOptions()) for i in range(4)
    ]
    columns = [
        np.concatenate([part.columns[j].values for part in parts]).tolist() for j in range(3)
    ]
    merged = merge_values(measures, columns, len(gains))
    assert [c.mean for c in merged.columns] == [c.mean for c in whole.columns]
    assert merged.columns[0].signature == "ndcg@5|gain:linear|source:values|v1"
    assert merged.counts.evaluated == 999


@pytest.mark.parametrize(
    ("columns", "path"),
    [
        ([[1.0]], "values.columns"),
        ([[1.0], [1.0], [1.0, 0.0]], "values.columns[2].values"),
        ([[1.0], [float("nan")], [1.0]], "values.columns[1].values[0]"),
        ([[1.0], [1.0], [float("-inf")]], "values.columns[2].values[0]"),
    ],
)
def test_refused_values_are_named(columns, path):
    with pytest.raises(InvalidField) as caught:
        merge_values(SOME, columns, 1)
    assert caught.value.field == path


def test_merged_values_are_floats_up_to_the_bound_and_counted():
    table = merge_values(SOME[:1], [[1, 0, -1]], 3)
    assert table.columns[0].values.dtype == np.float64
    assert (table.counts.queries, table.counts.evaluated) == (3, 3)
    assert table.rows.tolist() == [0, 1, 2]
    assert merge_values(SOME[:1], [[1e100, -1e100]], 2).columns[0].values.tolist() == [
        1e100,
        -1e100,
    ]


def test_the_signature_of_a_run_under_qrels_tells_every_option():
    topics = [Topic("1", ["a", "b"], [2, 1])]
    options = MetricOptions(
        complete=True,
        unjudged=UnjudgedPolicy.BOUNDS,
        relevance_level=2,
        max_documents=3,
    )
    run = run_of([Topic("1", ["b", "a"], [2.0, 1.0])])
    table = compute_trec(SOME[:1], qrels_of(topics), run, options)
    assert table.columns[0].signature == (
        "recall|source:trec|complete:true|unjudged:bounds|max_documents:3|relevance_level:2|v1"
    )
    run = run_of([Topic("1", ["a"])])
    plain = compute_trec(SOME[:1], qrels_of(topics), run, MetricOptions(relevance_level=1))
    assert plain.columns[0].signature == "recall|source:trec|v1"


def test_merging_nothing():
    assert merge_values(SOME, [[], [], []], 0).columns[0].mean is None


def test_query_ids_are_unique():
    check_unique(["a", "b"], "groups[{}].query_id")
    with pytest.raises(InvalidField) as caught:
        check_unique(["a", "b", "a"], "groups[{}].query_id")
    assert caught.value.field == "groups[2].query_id"
    assert "groups[0].query_id" in caught.value.rule


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


MEMBERS = ["precision", "recall", "f1", "hybrid_log_rank"]


def test_both_families_have_the_four_metrics():
    names = {name for name, metric in METRICS.items() if metric.family}
    assert names == {f"{member}_{family}" for member in MEMBERS for family in FAMILIES}


@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_has_the_formula_and_the_parameters_of_its_metric(name, family):
    plain, member = METRICS[name], METRICS[f"{name}_{family}"]
    assert (member.function, member.parameters) == (plain.function, plain.parameters)
    assert member.modes == (MatchingMode.ANY,)


def test_a_member_is_its_metric_under_the_family_and_in_mode_any():
    plain = METRICS["recall"]
    assert METRICS["recall_exact"] == replace(
        plain,
        name="recall_exact",
        description="recall without pairing, where texts match that are equal, byte for byte.",
        modes=(MatchingMode.ANY,),
        family="exact",
    )


def test_a_name_prints_as_it_parses():
    name = "hybrid_log_rank_exact(gamma=2)@10"
    assert str(parse_metrics([name])[0]) == name


def test_the_signature_tells_the_judge_once_there_is_one():
    measure = parse_metrics(["precision_exact@5"])[0].judged_by("exact|min_score:0.8|v1")
    assert measure.metric == replace(METRICS["precision_exact"], family="")
    assert measure.signature([("matching", "any")]) == (
        "precision_exact@5|judge:exact min_score:0.8 v1|matching:any|v1"
    )


def test_no_verdicts_qrels_or_gains_are_taken_for_those_of_the_family():
    measures = parse_metrics(["mrr", "f1_similarity@2"])
    options = MetricOptions(MatchingMode.ANY)
    one = np.array([1])
    verdicts = JudgedResults(np.array([True]), one, one)
    calls = {
        "ask for f1 with matching MATCHING_MODE_ANY over verdicts of the judge semantic": lambda: (
            compute_judged(measures, verdicts, options)
        ),
        "from qrels": lambda: compute_trec(
            measures,
            qrels_of([Topic("1", ["a"], [1])]),
            run_of([Topic("1", ["a"], [1.0])]),
            options,
        ),
        "from gains": lambda: compute_gains(measures, [[1.0]], [[1.0]], options),
    }
    for words, call in calls.items():
        with pytest.raises(InvalidField, match=words) as caught:
            call()
        assert caught.value.field == "metrics[1]"
