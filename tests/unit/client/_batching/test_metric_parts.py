"""A call in parts: what is refused at once, and whose path an error names."""

from __future__ import annotations

import pytest
from judged import (
    GainRanking,
    GainRankings,
    IntervalOptions,
    InvalidArgument,
    MetricOptions,
    PerQueryValues,
    TrecRankings,
    Unjudged,
)
from judged._batching.metric_parts import Given, Parts
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


@pytest.mark.parametrize(
    ("options", "metadata", "human", "more"),
    [
        (MetricOptions(per_query=True, unjudged=Unjudged.BOUNDS), {}, None, False),
        (MetricOptions(interval=IntervalOptions()), {}, None, True),
        (MetricOptions(slice_by=["k"]), {}, None, True),
        (MetricOptions(), METADATA, None, True),
        (MetricOptions(), {}, PerQueryValues(["q1"], [[1.0]]), True),
    ],
)
def test_only_what_the_parts_do_not_say_is_asked_of_the_whole(options, metadata, human, more):
    parts = parts_of(Given(TREC, metadata, human), options)
    for part, _ in parts.requests():
        ids = list(part.relevance.qrels)
        column = metrics_pb2.MetricResult(name="ap", per_query=[0.5] * len(ids), signature="s")
        table = metrics_pb2.MetricTable(metrics=[column], query_ids=ids)
        parts.answered(pb.ComputeMetricsResponse(table=table))
    assert (parts.whole() is not None) == more
    if not more:
        assert (parts.table()["ap"].mean, parts.table()["ap"].n) == (0.5, 6)


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
