"""Rankings, and people's view of some, in each form of the contract: what they are worth."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from judged.v1 import groups_pb2, metrics_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.values.choices import Matching, NoGold
from judged_server.api.convert.metrics import Rankings, compute, read_qrels, read_topics
from judged_server.errors import InvalidField
from judged_server.metrics.compute import SettledOptions
from judged_server.metrics.measures import parse_metrics

from tests.fakes.limits import limits

LIMITS = limits(max_contexts=100, max_text_bytes=100, max_embedding_dimensions=16)
NAN, INFINITY = float("nan"), float("inf")


def ranking(query_id, expected, retrieved):
    sides = [np.array(side, "<f4").reshape(-1, 2).tobytes() for side in (expected, retrieved)]
    vectors = groups_pb2.GroupEmbeddings(dimensions=2, expected=sides[0], retrieved=sides[1])
    return pb.EmbeddedRanking(query_id=query_id, embeddings=vectors)


def measure(metrics, *rankings, options=SettledOptions(), **fields):  # noqa: B008 - frozen
    message = pb.EmbeddedRankings(rankings=rankings, **fields)
    measured = Rankings(parse_metrics(metrics), options, LIMITS)
    return measured.measure("embedded", pb.ComputeMetricsRequest(embedded=message)).table


# Both of the first two results are near the first expected vector; cosines 1, .96, 0 and 0, .28, 1.
NEAR = ranking("1", [[1, 0], [0, 1]], [[2, 0], [0.96, 0.28], [-1, 0]])


def test_the_family_is_in_mode_any_and_plain_metrics_in_that_of_the_request():
    names = ["precision_similarity", "precision", "recall_similarity", "hit_rate"]
    table = measure(names, NEAR)
    assert [c.mean for c in table.columns] == pytest.approx([2 / 3, 1 / 3, 0.5, 1.0])
    assert [c.name for c in table.columns] == names
    any_mode = measure(["precision"], NEAR, options=SettledOptions(Matching.ANY))
    assert any_mode.columns[0].mean == pytest.approx(2 / 3)


def test_the_bar_is_point_8_or_that_of_the_request_and_stands_in_the_signature():
    (column,) = measure(["precision_similarity"], NEAR).columns
    assert "|judge:semantic model:caller min_score:0.8 v1|matching:any|" in column.signature
    (column,) = measure(["precision_similarity"], NEAR, min_score=0.97).columns
    assert column.mean == pytest.approx(1 / 3)
    assert "min_score:0.97" in column.signature


def test_a_query_without_vectors_to_expect():
    nothing = ranking("2", [], [[1, 0]])
    assert measure(["recall"], NEAR, nothing).counts.skipped_no_gold == 1
    with pytest.raises(InvalidField) as caught:
        measure(["recall"], NEAR, nothing, options=SettledOptions(no_gold=NoGold.ERROR))
    assert caught.value.field == "embedded.rankings[1].embeddings.expected"


def run(request):
    return compute(request, LIMITS).table


def per_query(ids, values):
    column = metrics_pb2.ValueColumn(values=values)
    return metrics_pb2.PerQueryValues(query_ids=ids, columns=[column])


HITS = {f"q{i}": i % 3 > 0 for i in range(50)}
RELEVANCE = {
    "values": per_query(HITS, HITS.values()),
    "gains": metrics_pb2.GainRankings(
        rankings=[
            metrics_pb2.GainRanking(query_id=query_id, gains=[hit, not hit], relevant_gains=[1])
            for query_id, hit in HITS.items()
        ]
    ),
    "trec": metrics_pb2.TrecRankings(
        qrels=[
            metrics_pb2.TopicQrels(query_id=each, document_ids=["a"], grades=[1]) for each in HITS
        ],
        run=[
            metrics_pb2.TopicRun(query_id=query_id, document_ids=["a" if hit else "b"])
            for query_id, hit in HITS.items()
        ],
    ),
}


@pytest.mark.parametrize("kind", RELEVANCE)
def test_human_values_correct_any_relevance(kind):
    human = per_query(list(HITS)[:40], [float(i % 2) for i in range(40)])
    options = metrics_pb2.MetricOptions(per_query=True)
    request = pb.ComputeMetricsRequest(
        metrics=["ap"], options=options, human_values=human, **{kind: RELEVANCE[kind]}
    )
    (metric,) = run(request).metrics
    assert (metric.corrected.n_labelled, metric.corrected.n) == (40, 50)
    assert metric.corrected.labels_only.value == 0.5


def corrected(probabilities=()):
    """The correction of 300 queries with 3 results by labels of the first 60."""
    rng = np.random.Generator(np.random.PCG64(9))
    truth = rng.random((300, 3)) < 0.4
    score = np.clip(np.where(truth, 0.65, 0.4) + rng.normal(0, 0.12, (300, 3)), 0, 1)
    ids = [f"q{i}" for i in range(300)]
    of_judged = metrics_pb2.JudgedRankings(
        rankings=[
            metrics_pb2.JudgedRanking(query_id=query_id, expected=1, retrieved=3)
            for query_id in ids
        ],
        verdicts={"relevant": (score >= 0.5).ravel().tolist(), "score": score.ravel().tolist()},
        human_labels={
            "query_ids": ids[:60],
            "relevant": truth[:60].ravel().tolist(),
            "inclusion_probabilities": probabilities,
        },
    )
    request = pb.ComputeMetricsRequest(metrics=["precision@2"], judged=of_judged)
    return run(request).metrics[0].corrected


def test_equal_probabilities_are_none_and_unequal_ones_weigh():
    before, same, other = corrected(), corrected([0.25] * 60), corrected([0.2, 0.8] * 30)
    assert same.corrected.value == pytest.approx(before.corrected.value, abs=1e-12)
    assert other.labels_only.value != pytest.approx(before.labels_only.value, abs=1e-6)
    assert "|weights:hajek|" in other.corrected.interval.signature


def doubles(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


def columns(query_ids=(), n_documents=(), document_ids="", values=()):
    return metrics_pb2.TopicColumns(
        query_ids=query_ids,
        n_documents=n_documents,
        document_ids=document_ids,
        values=values if isinstance(values, bytes) else doubles(*values),
    )


def run_of(message):
    return read_topics(message, "trec.", "run")


def seen(topics):
    values = np.split(topics.values, topics.offsets[1:-1])
    return [
        (query_id, topics.names(i), values[i].tolist())
        for i, query_id in enumerate(topics.query_ids)
    ]


def test_qrels_read_alike_in_both_forms():
    one_by_one = metrics_pb2.TrecRankings(
        qrels=[
            metrics_pb2.TopicQrels(query_id="q", document_ids=["a", "é"], grades=[1, -2]),
            metrics_pb2.TopicQrels(query_id="r"),
            metrics_pb2.TopicQrels(query_id="s", document_ids=[""], grades=[2**31 - 1]),
        ]
    )
    joined = columns("qrs", [2, 0, 1], "a\né\n", [1, -2, 2**31 - 1])
    expected = [
        ("q", ["a", "é"], [1, -2]), ("r", [], []), ("s", [""], [2**31 - 1])
    ]  # fmt: skip
    assert seen(read_qrels(one_by_one, "trec.").topics) == expected
    assert (
        seen(read_qrels(metrics_pb2.TrecRankings(qrels_columns=joined), "trec.").topics) == expected
    )


def test_without_scores_the_places_are_the_scores():
    run = run_of(metrics_pb2.TrecRankings(run_columns=columns("qr", [3, 1], "a\nb\nc\nd")))
    assert run.values.tolist() == [0, -1, -2, 0]
