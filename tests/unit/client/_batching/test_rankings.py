from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import (
    GainRanking,
    GainRankings,
    HumanLabels,
    IntervalOptions,
    InvalidArgument,
    JudgedRanking,
    JudgedRankings,
    MetricOptions,
    MetricTable,
    PerQueryValues,
    TrecRankings,
    Unjudged,
)
from judged._batching.rankings import (
    check_metadata,
    for_part,
    for_whole,
    means_of,
    merge,
    split,
    values_of,
)
from judged.values import MetricCounts, MetricResult, MetricSlice

ids = st.text("abc", min_size=1, max_size=3)
topics = st.dictionaries(ids, st.dictionaries(ids, st.integers(0, 3), max_size=5), max_size=8)


@given(topics.filter(bool), topics, st.integers(1, 200))
def test_topics_stay_whole_and_none_is_lost(qrels, run, size):
    whole = TrecRankings(qrels, run)
    parts = [part for part in split(whole, size) if isinstance(part, TrecRankings)]
    assert [q for part in parts for q in part.qrels] == list(qrels)
    # A part holds what `joined` made of each topic, which is none of the types that callers give.
    sent: list[tuple[str, Any]] = [pair for part in parts for pair in part.run.items()]
    assert {q: dict(zip(*ranked[:2], strict=True)) for q, ranked in sent} == run
    assert all(part.qrels for part in parts)
    for part in parts:
        for query_id in part.run:
            assert query_id in part.qrels or query_id not in qrels


def test_topics_that_only_the_run_has_are_spread_over_the_parts():
    ranked = {f"d{number}": 1.0 / (1 + number) for number in range(100)}
    qrels = {f"q{number}": {"d1": 1} for number in range(10)}
    run = {f"q{number}": ranked for number in range(500)}  # as of a whole collection's queries
    parts = [
        part for part in split(TrecRankings(qrels, run), 1000) if isinstance(part, TrecRankings)
    ]
    assert len(parts) == 10
    assert sum(len(part.run) for part in parts) == 500
    assert max(len(part.run) for part in parts) <= 51


def test_gains_are_cut_between_queries():
    whole = GainRankings([GainRanking(str(i), [1.0] * 5, [1.0]) for i in range(10)])
    parts = [part for part in split(whole, 100) if isinstance(part, GainRankings)]
    assert len(parts) == 5
    assert [r for part in parts for r in part.rankings] == whole.rankings


def judged(n, **columns):
    rankings = [JudgedRanking(str(i), 2, 3) for i in range(n)]
    return JudgedRankings(rankings, [i % 3 == 0 for i in range(6 * n)], **columns)


def test_verdicts_are_cut_between_queries():
    whole = judged(10, status=[1] * 60, score=[i / 60 for i in range(60)], max_grade=3)
    parts = [part for part in split(whole, 16) if isinstance(part, JudgedRankings)]
    assert len(parts) == 5
    for name in ("rankings", "relevant", "status", "score"):
        assert [one for part in parts for one in getattr(part, name)] == getattr(whole, name)
    assert {(part.max_grade, part.source, part.flags) for part in parts} == {(3, (), ())}


@pytest.mark.parametrize(
    "whole",
    [
        JudgedRankings([], []),
        judged(10, status=[1] * 59),
        judged(10, human_labels=HumanLabels(["1"], [True] * 6)),
        JudgedRankings([JudgedRanking("a", -1, 3)], []),
    ],
)
def test_verdicts_that_can_not_be_cut_travel_in_one_piece(whole):
    assert list(split(whole, 16)) == [whole]


class TestMerge:
    """What parts are asked for, and what becomes of their answers."""

    BOUNDS = MetricOptions(
        interval=IntervalOptions(), slice_by=["k"], unjudged=Unjudged.BOUNDS, complete=True
    )
    METADATA: ClassVar = {"a": {"k": "1"}, "b": {"k": "2"}, "c": {"k": "1"}}

    def test_parts_give_values_and_no_intervals(self):
        part = GainRankings([GainRanking("b", [], [])])
        options = MetricOptions(interval=IntervalOptions(), slice_by=["k"])
        asked, known = for_part(part, options, self.METADATA)
        assert (asked, known) == (MetricOptions(per_query=True), {})

    def test_parts_give_slices_where_these_have_bounds(self):
        part = TrecRankings({"b": {}}, {"c": [], "x": []})
        asked, known = for_part(part, self.BOUNDS, self.METADATA)
        assert (asked.interval, asked.slice_by, asked.complete) == (None, ["k"], True)
        assert known == {"b": {"k": "2"}, "c": {"k": "1"}}

    def test_the_whole_is_asked_about_measured_queries(self):
        values = PerQueryValues(["a", "z"], [[1.0, 0.0]])
        asked, known = for_whole(values, self.BOUNDS, self.METADATA)
        assert asked.interval == IntervalOptions()
        assert asked.slice_by == ["k"]
        assert known == {"a": {"k": "1"}}

    def test_means_are_exact_sums_of_all_parts(self):
        def table(*values):
            return MetricTable(
                [MetricResult("ap", 0.5, len(values), None, None, "signed", values)],
                [str(value) for value in values],
                MetricCounts(),
            )

        parts = [table(1e100, 1.0), table(), table(-1e100)]
        means = means_of(values_of(parts), parts)
        assert means["ap"].mean == pytest.approx(1 / 3)
        assert (means["ap"].n, list(means["ap"].per_query)) == (3, [1e100, 1.0, -1e100])
        assert means.query_ids == ["1e+100", "1.0", "-1e+100"]
        nothing = means_of(values_of([table()]), [table()])
        assert (nothing["ap"].mean, nothing["ap"].n) == (None, 0)

    def test_metadata_of_a_query_that_is_not_there_is_refused(self):
        check_metadata(TrecRankings({"a": {}, "b": {}}, {"c": []}), self.METADATA)
        with pytest.raises(InvalidArgument) as caught:
            check_metadata(TrecRankings({"a": {}}, {"c": []}), self.METADATA)
        assert caught.value.field == "metadata[1].query_id"
        with pytest.raises(InvalidArgument):
            check_metadata(PerQueryValues([], []), self.METADATA)

    def test_bounds_are_weighted_by_queries(self):
        def metric(mean, n, lower, upper):
            return MetricResult("ap", mean, n, lower, upper, "signed", [])

        parts = [
            MetricTable(
                [metric(0.5, 1, 0.4, 0.6)],
                ["a"],
                MetricCounts(queries=1, unjudged=2),
                [MetricSlice("k", "1", [metric(0.5, 1, 0.4, 0.6)])],
            ),
            MetricTable(
                [metric(0.1, 3, 0.0, 0.2)],
                ["b"],
                MetricCounts(queries=3, unjudged=1),
                [MetricSlice("k", "2", [metric(0.1, 3, 0.0, 0.2)])],
            ),
            MetricTable([metric(None, 0, None, None)], [], MetricCounts()),
        ]
        merged = MetricResult("ap", 0.2, 4, None, None, "values", [], interval=None)
        slices = [
            MetricSlice("k", value, [MetricResult("ap", 0.5, 1, None, None, "values", [])])
            for value in "12"
        ]
        whole = merge(MetricTable([merged], [], MetricCounts(), slices), parts, MetricOptions())
        assert whole["ap"].lower_bound == pytest.approx(0.1)
        assert whole["ap"].upper_bound == pytest.approx(0.3)
        assert whole["ap"].signature == "signed"
        assert whole.counts.unjudged == 3
        assert [part["ap"].upper_bound for part in whole.slices] == [0.6, pytest.approx(0.2)]
        assert {part["ap"].signature for part in whole.slices} == {"signed"}
