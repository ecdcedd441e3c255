"""Metrics of what no message holds: a stream of parts has the numbers and the paths of one call."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import strategies as st
from judged import (
    Client,
    EmbeddedRanking,
    EmbeddedRankings,
    Embeddings,
    GainRanking,
    GainRankings,
    HumanLabels,
    IntervalMethod,
    IntervalOptions,
    InvalidArgument,
    JudgedRanking,
    JudgedRankings,
    MetricOptions,
    PerQueryValues,
    QueryGroup,
    Status,
    TextItem,
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

METRICS = ["recall@2", "ndcg@3", "ap", "err@3"]
OPTIONS = MetricOptions(per_query=True, interval=IntervalOptions(seed=7), slice_by=["k"])


def judged(missing: float) -> JudgedRankings:
    """Return 40 rankings, of which a share of the verdicts of the second half is missing."""
    draw = random.Random(3)
    shapes = [JudgedRanking(f"q{i}", draw.randrange(3), draw.randrange(5)) for i in range(40)]
    relevant, status = [], []
    for place, shape in enumerate(shapes):
        for _ in range(shape.expected * shape.retrieved):
            lost = place >= 20 and draw.random() < missing
            status.append(int(Status.ERROR if lost else Status.OK))
            relevant.append(not lost and draw.random() < 0.4)
    return JudgedRankings(shapes, relevant, status)


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
VECTORS = EmbeddedRankings(
    [
        EmbeddedRanking(f"q{i}", Embeddings.from_rows([[1.0, 0.5]], [[1.0, i / 9], [0.0, 1.0]]))
        for i in range(40)
    ]
)
METADATA = {f"q{i}": {"k": "even" if i % 2 else "odd"} for i in range(39, -1, -3)}
HUMAN = PerQueryValues(
    [f"q{i}" for i in range(5, 30)], [[(i % 5) / 4 for i in range(25)]] * len(METRICS)
)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        *((judged(missing), OPTIONS) for missing in (0.0, 0.2, 1.0)),
        (judged(0.2), MetricOptions()),
        (GAINS, OPTIONS),
        (VECTORS, OPTIONS),
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
    assert max(len(part.metadata) for part in sent) < 3
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


@pytest.mark.parametrize(
    "whole",
    [
        JudgedRankings([], []),
        replace(judged(0.0), status=[1]),
        replace(judged(0.0), human_labels=HumanLabels(["q1"], [True])),
    ],
)
def test_verdicts_that_can_not_be_cut_travel_in_one_piece(whole, monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES", 16)
    (sent,) = metric_parts(METRICS, whole, MetricOptions(), {}, None)
    assert list(sent.judged.verdicts.relevant) == whole.relevant


def wrong_score(place: int) -> JudgedRankings:
    whole = judged(0.0)
    score = [0.5] * len(whole.relevant)
    score[place] = 2.0
    return replace(whole, score=score)


LAST = len(judged(0.0).relevant) - 1
TREC = TrecRankings(
    {f"q{i}": {"a": 1} for i in range(6)}, {f"q{i}": {"a": 1.0} for i in range(7, 0, -1)}
)


@pytest.mark.parametrize(
    ("given", "known", "field"),
    [
        (wrong_score(LAST), {}, f"judged.verdicts.score[{LAST}]"),
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
        (GAINS, {"metadata": {**METADATA, "x": {"k": "\ud800"}}}, 'metadata[14].metadata["k"]'),
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


def test_parts_of_texts_give_the_table_of_the_whole(client: Client, monkeypatch):
    items = [TextItem(f"the {i} end", ["the end", "日本"][: 1 + i % 2]) for i in range(40)]
    items += [TextItem("日本", ["日"]), TextItem("", [""])]
    asked = (["bleu", "rougeL", "exact_match"], items)
    options = {"per_item": True, "interval": IntervalOptions(seed=3)}
    whole = [client.compute_text_metrics(*asked, **each).to_dict() for each in (options, {})]
    monkeypatch.setattr(parts, "PART_BYTES", 60)
    cut = [client.compute_text_metrics(*asked, **each).to_dict() for each in (options, {})]
    assert repr(cut) == repr(whole)


LARGE = 18 << 20
"""Bytes, which is more than a message may have."""
ONES = array("d", [1.0]) * (LARGE // 8 // 20)
ROWS = Embeddings(4096, np.ones(4096, "<f4").tobytes(), np.ones(4096 * 58, "<f4").tobytes())


@pytest.mark.parametrize(
    "given",
    [
        JudgedRankings(
            [JudgedRanking(f"q{i}", 1, len(ONES)) for i in range(20)],
            array("b", [1]) * (20 * len(ONES)),
            score=ONES * 20,
        ),
        GainRankings([GainRanking(f"q{i}", ONES, ONES) for i in range(20)]),
        EmbeddedRankings([EmbeddedRanking(f"q{i}", ROWS) for i in range(20)]),
        TrecRankings({"q0": {"d" * (1 << 20): 1}}, {f"q{i}": ["d" * (1 << 20)] for i in range(18)}),
    ],
    ids=lambda given: type(given).__name__,
)
def test_rankings_that_no_message_holds_are_measured(client: Client, given: Any):
    assert client.compute_metrics(["mrr"], given).metrics[0].mean == 1.0


def test_texts_that_no_message_holds_are_measured(client: Client):
    items = [TextItem("a" * (1 << 20), ["a" * (1 << 20)])] * 9
    assert client.compute_text_metrics(["exact_match"], items).metrics[0].mean == 1.0


def test_groups_that_no_message_holds_are_judged_and_evaluated(client: Client):
    texts = ["é" * (1 << 19)] * 18
    groups = [QueryGroup("q", texts[:1], texts, query_id="q")]
    assert all(client.judge(groups, judge="exact").relevant)
    found = client.evaluate(groups, ["hit_rate@1"], judge="exact")
    assert found.table.metrics[0].mean == 1.0
