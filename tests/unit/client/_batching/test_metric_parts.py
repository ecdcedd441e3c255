"""A call in parts: what is refused at once, and whose path an error names."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as drawn
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
    PerQueryValues,
    TrecRankings,
    Unjudged,
)
from judged._batching.metric_parts import Given, Parts, split
from judged._convert.metrics import write_metrics
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2

TREC = TrecRankings(
    {f"q{i}": {"a": 1} for i in range(6)}, {f"q{i}": ["a"] for i in (5, 4, 3, 2, 1, 0)}
)
METADATA = {f"q{i}": {"k": "v"} for i in (3, 5, 0)}
GAINS = GainRankings([GainRanking(str(i), [1.0], [1.0]) for i in range(4)])


def parts_of(given, options=MetricOptions()):  # noqa: B008 - frozen
    return Parts(["ap"], given, options, part_bytes=40)


def told(parts, part, field):
    with pytest.raises(InvalidArgument) as caught, parts.about(part):
        raise InvalidArgument.of_field(field, f"is that of {field} again")
    assert str(caught.value) == f"{caught.value.field}: is that of {caught.value.field} again"
    assert caught.value.metadata == {"field": caught.value.field}
    return caught.value.field


def test_what_one_message_holds_has_no_parts():
    given = Given(TREC, {})
    parts = Parts(["ap"], given, MetricOptions())
    assert list(parts.requests()) == []
    part, request = parts.whole()
    assert part is given
    assert request == write_metrics(["ap"], TREC, MetricOptions(), {}, None)


def answered(parts, part, **columns):
    """Take in values of the topics of a part."""
    ids = list(part.relevance.qrels)
    metric = metrics_pb2.MetricResult(name="ap", per_query=[0.5] * len(ids), **columns)
    table = metrics_pb2.MetricTable(metrics=[metric], query_ids=ids)
    parts.take(part, pb.ComputeMetricsResponse(table=table))


def test_parts_give_values_and_the_whole_is_asked_about_these():
    options = MetricOptions(interval=IntervalOptions(), slice_by=["k"], complete=True)
    parts = parts_of(Given(TREC, METADATA), options)
    for part, request in parts.requests():
        assert (request.options.per_query, list(request.options.slice_by)) == (True, [])
        assert not request.options.HasField("interval")
        assert not request.metadata
        answered(parts, part)
    whole, request = parts.whole()
    assert whole.relevance == PerQueryValues(list(TREC.qrels), [[0.5] * 6])
    assert whole.metadata == {f"q{i}": {"k": "v"} for i in (0, 3, 5)}
    assert list(request.options.slice_by) == ["k"]
    assert request.options.HasField("interval")
    assert not request.options.qrels.complete


def test_parts_give_slices_where_these_have_bounds():
    options = MetricOptions(slice_by=["k"], unjudged=Unjudged.BOUNDS)
    for part, request in parts_of(Given(TREC, METADATA), options).requests():
        assert list(request.options.slice_by) == ["k"]
        assert set(part.metadata) == set(part.relevance.qrels) & set(METADATA)


def test_bounds_are_weighted_by_queries():
    parts = parts_of(Given(TREC, {}))
    bounds = iter([(0.4, 0.6, 1), (0.0, 0.2, 3)])
    for part, _ in parts.requests():
        lower, upper, n = next(bounds, (0.0, 0.0, 0))
        answered(parts, part, lower_bound=lower, upper_bound=upper, n=n, signature="signed")
    metric = metrics_pb2.MetricResult(name="ap", mean=0.5, n=4, signature="values")
    table = parts.table(pb.ComputeMetricsResponse(table=metrics_pb2.MetricTable(metrics=[metric])))
    assert table["ap"].lower_bound == pytest.approx(0.1)
    assert table["ap"].upper_bound == pytest.approx(0.3)
    assert table["ap"].signature == "signed"


def test_errors_name_the_topics_of_the_whole():
    parts = parts_of(Given(TREC, {}))
    sent = [part for part, _ in parts.requests()]
    second = sent[1]
    (first_id, *_) = second.relevance.qrels
    assert len(sent) > 2
    assert first_id != "q0"
    place = int(first_id[1:])
    assert told(parts, second, "trec.qrels[0].grades[3]") == f"trec.qrels[{place}].grades[3]"
    assert told(parts, second, "trec.run[0].scores[3]") == f"trec.run[{5 - place}].scores[3]"
    assert told(parts, second, "options.slice_by[0]") == "options.slice_by[0]"


def test_errors_name_the_rankings_and_the_metadata_of_the_whole():
    parts = parts_of(Given(GAINS, {}))
    last = [part for part, _ in parts.requests()][-1]
    assert told(parts, last, "gains.rankings[1].gains[1]") == "gains.rankings[3].gains[1]"
    parts = parts_of(Given(TREC, METADATA), MetricOptions(unjudged=Unjudged.BOUNDS))
    by_id = {q: part for part, _ in parts.requests() for q in part.metadata}
    for place, query_id in enumerate(METADATA):
        at = list(by_id[query_id].metadata).index(query_id)
        assert told(parts, by_id[query_id], f"metadata[{at}].query_id") == (
            f"metadata[{place}].query_id"
        )


def test_errors_of_the_last_message_name_the_human_values_of_the_caller():
    human = PerQueryValues(["q2", "q1"], [[1.0, 0.5]])
    parts = parts_of(Given(TREC, {}, human))
    part = Given(PerQueryValues(["q1"], [[1.0]]), {}, PerQueryValues(["q1"], [[0.5]]))
    assert told(parts, part, "human_values.query_ids[0]") == "human_values.query_ids[1]"


def test_a_text_that_can_not_be_sent_is_named_once():
    metadata = {"q0": {"k": "v"}, "q5": {"k": "\ud800"}}
    with pytest.raises(InvalidArgument) as caught:
        list(parts_of(Given(TREC, metadata), MetricOptions(unjudged=Unjudged.BOUNDS)).requests())
    assert caught.value.field == 'metadata[1].metadata["k"]'


def test_a_query_of_two_parts_is_refused():
    twice = GainRankings([*GAINS.rankings, GAINS.rankings[1]])
    with pytest.raises(InvalidArgument) as caught:
        parts_of(Given(twice, {}))
    assert caught.value.field == "gains.rankings[4].query_id"
    assert "gains.rankings[1]" in str(caught.value)


@pytest.mark.parametrize(
    "given", [Given(TREC, {"q9": {}}), Given(TREC, {}, PerQueryValues(["q9"], [[1.0]]))]
)
def test_what_is_known_of_a_query_that_is_not_there_is_refused(given):
    with pytest.raises(
        InvalidArgument, match=r"^(metadata\[0\]\.query_id|human_values\.query_ids\[0\])"
    ):
        parts_of(given)


ids = st.text("abc", min_size=1, max_size=3)
topics = st.dictionaries(ids, st.dictionaries(ids, st.integers(0, 3), max_size=5), max_size=8)


@drawn(topics.filter(bool), topics, st.integers(1, 200))
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
