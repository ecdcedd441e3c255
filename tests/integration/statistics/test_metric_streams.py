"""Metrics of what no message holds: a stream of parts has the numbers and the paths of one call."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from judged import (
    Client,
    GainRanking,
    GainRankings,
    IntervalMethod,
    IntervalOptions,
    InvalidArgument,
    MetricOptions,
    PerQueryValues,
    TrecRankings,
    Unjudged,
)
from judged._batching import parts
from judged._batching.parts import metric_parts, split_trec
from judged._transport.call import to_error
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2, statistics_service_pb2
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub
from judged.v1.statistics_service_pb2_grpc import StatisticsServiceStub

METRICS = ["recall@2", "ndcg@3", "ap"]
OPTIONS = MetricOptions(per_query=True, interval=IntervalOptions(seed=7), slice_by=["k"])


def trec() -> TrecRankings:
    """Return topics in other orders in qrels and run, some in one of them alone."""
    draw = random.Random(5)
    docs = [f"d{n}" for n in range(9)]
    qrels = {f"q{i}": {d: draw.randrange(-1, 3) for d in draw.sample(docs, 4)} for i in range(30)}
    names = [f"q{i}" for i in range(5, 45)]
    draw.shuffle(names)
    return TrecRankings(qrels, {q: {d: draw.random() for d in docs[:6]} for q in names})


GAINS = GainRankings(
    [
        GainRanking(f"q{i}", [i % 2, 0.5], [1.0, 0.5, 2.0])
        if i % 7
        else GainRanking(f"q{i}", [0.0], [])
        for i in range(40)
    ]
)
METADATA = {f"q{i}": {"k": "even" if i % 2 else "odd"} for i in range(39, -1, -3)}
HUMAN = PerQueryValues([f"q{i}" for i in range(5, 30)], [[(i % 5) / 4 for i in range(25)]] * 3)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (trec(), OPTIONS),
        (trec(), replace(OPTIONS, complete=True, unjudged=Unjudged.BOUNDS)),
        *(
            (trec(), replace(OPTIONS, interval=IntervalOptions(method, resamples=300, seed=2)))
            for method in IntervalMethod
        ),
        (trec(), replace(OPTIONS, relevance_level=2, max_documents=3)),
    ],
)
@pytest.mark.parametrize("human", [None, HUMAN])
def test_parts_give_the_table_of_the_whole(
    client: Client, monkeypatch: pytest.MonkeyPatch, given: Any, options: MetricOptions, human: Any
):
    asked = (METRICS, given, options)
    known = {"metadata": METADATA, "human_values": human}
    whole = client.compute_metrics(*asked, **known)
    monkeypatch.setattr(parts, "PART_BYTES", 40)
    sent = list(metric_parts(*asked, METADATA, human))
    assert len(sent) > 10
    assert client.compute_metrics(*asked, **known) == whole


ids = st.text("abc", min_size=1, max_size=3)
topics = st.dictionaries(ids, st.dictionaries(ids, st.integers(0, 3), max_size=5), max_size=8)


@drawn(topics, topics, st.integers(1, 200))
def test_topics_stay_whole_and_none_is_lost(qrels, run, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "PART_BYTES", size)
        found: list[Any] = list(split_trec(TrecRankings(qrels, run)))
    assert [q for part in found for q in part.qrels] == list(qrels)
    sent: list[tuple[str, Any]] = [pair for part in found for pair in part.run.items()]
    if len(found) > 1:  # each holds what `joined` made of topics, which callers do not give
        sent = [(q, dict(zip(*ranked[:2], strict=True))) for q, ranked in sent]
    assert dict(sent) == run
    for part in found:
        assert all(query_id in part.qrels or query_id not in qrels for query_id in part.run)


TREC = TrecRankings(
    {f"q{i}": {"a": 1} for i in range(6)}, {f"q{i}": {"a": 1.0} for i in range(7, 0, -1)}
)


@pytest.mark.parametrize(
    ("given", "known", "field"),
    [
        (GainRankings([*GAINS.rankings, GAINS.rankings[1]]), {}, "gains.rankings[40].query_id"),
        (GainRankings([*GAINS.rankings, GainRanking("x", [float("inf")], [])]), {},
         "gains.rankings[40].gains[0]"),
        (GainRankings([*GAINS.rankings, GainRanking("\ud800", [1.0], [])]), {},
         "gains.rankings[40].query_id"),
        (replace(TREC, qrels={**TREC.qrels, "q4": {"a": 1 << 40}}), {}, "trec.qrels[4].grades[0]"),
        (replace(TREC, run={**TREC.run, "q2": {"a": 1e99}}), {}, "trec.run[5].scores[0]"),
        (replace(TREC, run={**TREC.run, "q7": {"a": 1e99}}), {}, "trec.run[0].scores[0]"),
        (replace(TREC, qrels={}), {}, "trec.qrels"),
        (GAINS, {"metadata": {**METADATA, "nobody": {}}}, "metadata[14].query_id"),
        (GAINS, {"metadata": {**METADATA, "x": {"k": "\ud800"}}}, "metadata[14].metadata"),
        (GAINS, {"human_values": PerQueryValues(["q1", "x"], [[1.0, 1.0]] * 3)},
         "human_values.query_ids[1]"),
        (TREC, {"human_values": PerQueryValues(["q7"], [[1.0]] * 3)}, "human_values.query_ids[0]"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_place_in_the_whole(
    client: Client, monkeypatch: pytest.MonkeyPatch, given: Any, known: Any, field: str
):
    told = []
    for size in (parts.PART_BYTES, 20):
        monkeypatch.setattr(parts, "PART_BYTES", size)
        with pytest.raises(InvalidArgument) as caught:
            client.compute_metrics(METRICS, given, **known)
        assert caught.value.field == field
        told.append((str(caught.value), caught.value.metadata))
    assert told[0] == told[1]


@pytest.fixture
def channel(server_address: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server_address) as connected:
        yield connected


def gains(*ids: str, **others: Any) -> pb.ComputeMetricsRequest:
    rankings = [metrics_pb2.GainRanking(query_id=q, gains=[1], relevant_gains=[1]) for q in ids]
    asked = {"metrics": ["ap"], "gains": metrics_pb2.GainRankings(rankings=rankings), **others}
    return pb.ComputeMetricsRequest(**asked)


def topic(query_id: str, *sides: str) -> pb.ComputeMetricsRequest:
    of = {
        "qrels": metrics_pb2.TopicQrels(query_id=query_id, document_ids=["a"], grades=[1]),
        "run": metrics_pb2.TopicRun(query_id=query_id, document_ids=["a"]),
    }
    given = metrics_pb2.TrecRankings(**{side: [of[side]] for side in sides})
    return pb.ComputeMetricsRequest(metrics=["ap"], trec=given)


VERDICTS = metrics_pb2.JudgedRankings(rankings=[metrics_pb2.JudgedRanking(query_id="q")])
LABELLED = metrics_pb2.JudgedRankings(human_labels=metrics_pb2.HumanLabels())
VALUES = metrics_pb2.PerQueryValues(query_ids=["a"], columns=[metrics_pb2.ValueColumn(values=[1])])


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ([], "relevance"),
        ([pb.ComputeMetricsRequest(metrics=["ap"])], "relevance"),
        ([pb.ComputeMetricsRequest()], "metrics"),
        ([gains("a"), gains("b", metrics=["mrr"])], "part"),
        ([gains("a"), gains("b", options=metrics_pb2.MetricOptions(per_query=True))], "part"),
        ([gains("a"), topic("b", "qrels", "run")], "part"),
        ([pb.ComputeMetricsRequest(metrics=["ap"], values=VALUES)], "values"),
        ([pb.ComputeMetricsRequest(metrics=["ap"], judged=LABELLED)], "judged.human_labels"),
        ([gains("a"), *[pb.ComputeMetricsRequest(human_values=VALUES)] * 2], "human_values"),
        ([topic("a", "qrels"), topic("a", "run")], "trec.run[0].query_id"),
        ([topic("a", "qrels", "run"), topic("a", "qrels")], "trec.qrels[1].query_id"),
        ([topic("a", "qrels"), topic("b", "run"), topic("b", "run")], "trec.run[1].query_id"),
    ],
)  # fmt: skip
def test_parts_that_do_not_go_together_are_refused(channel: grpc.Channel, sent: Any, field: str):
    messages = [pb.StreamMetricsRequest(part=part) for part in sent]
    with pytest.raises(grpc.RpcError) as caught:
        list(JudgeServiceStub(channel).StreamMetrics(iter(messages), timeout=20))
    error = to_error(caught.value, "here")
    assert isinstance(error, InvalidArgument)
    assert error.field == field


@pytest.mark.parametrize(
    ("second", "field"),
    [
        ({"metrics": ["bleu"], "items": [{"hypothesis": "a"}]}, "items[1].references"),
        ({"metrics": ["rougeL"], "items": [{"references": ["a"]}]}, "part"),
        ({"metrics": ["bleu"], "values": [{"values": [1]}]}, "values"),
    ],
)
def test_parts_of_texts_are_refused_alike(channel: grpc.Channel, second: Any, field: str):
    asked = statistics_service_pb2.ComputeTextMetricsRequest
    first = asked(metrics=["bleu"], items=[{"hypothesis": "a", "references": ["a"]}])
    messages = [
        statistics_service_pb2.StreamTextMetricsRequest(part=part)
        for part in (first, asked(**second))
    ]
    with pytest.raises(grpc.RpcError) as caught:
        list(StatisticsServiceStub(channel).StreamTextMetrics(iter(messages), timeout=20))
    error = to_error(caught.value, "here")
    assert isinstance(error, InvalidArgument)
    assert error.field == field
