"""The topics of a request, in each of their forms."""

from __future__ import annotations

import struct

import pytest
from judged.v1 import judge_service_pb2 as pb
from judged_server.errors import InvalidField
from judged_server.rpc.topics import read_qrels, read_run


def pack(*scores: float) -> bytes:
    return struct.pack(f"<{len(scores)}d", *scores)


@pytest.mark.parametrize("ids", [{"document_ids": ["a", "b"]}, {"joined_document_ids": "a\nb"}])
@pytest.mark.parametrize("scores", [{"scores": [0.5, -1.0]}, {"score_bytes": pack(0.5, -1.0)}])
def test_a_topic_of_a_run_reads_alike_in_all_forms(ids, scores):
    (topic,) = read_run([pb.TopicRun(query_id="q", **ids, **scores)])
    assert topic.query_id == "q"
    assert topic.document_ids == ["a", "b"]
    assert topic.values == [0.5, -1.0]
    assert topic.joined_ids == ids.get("joined_document_ids")
    assert topic.packed_values == scores.get("score_bytes")
    assert topic.documents is None


@pytest.mark.parametrize("ids", [{"document_ids": ["a", "b"]}, {"joined_document_ids": "a\nb"}])
def test_a_topic_of_the_qrels_reads_alike_in_all_forms(ids):
    (topic,) = read_qrels([pb.TopicQrels(query_id="q", grades=[1, -2], **ids)])
    assert (topic.query_id, topic.document_ids, topic.values) == ("q", ["a", "b"], [1, -2])
    assert topic.joined_ids == ids.get("joined_document_ids")
    assert (topic.documents, topic.packed_values) == (None, None)


def test_without_documents_and_scores():
    (run,) = read_run([pb.TopicRun(query_id="q")])
    (qrels,) = read_qrels([pb.TopicQrels(query_id="q")])
    assert (run.joined_ids, run.document_ids, run.values, run.packed_values) == ("", [], [], None)
    assert (qrels.joined_ids, qrels.document_ids, qrels.values) == ("", [], [])


def test_a_single_empty_id_is_one():
    (run,) = read_run([pb.TopicRun(query_id="q", document_ids=[""])])
    assert (run.joined_ids, run.document_ids) == (None, [""])


@pytest.mark.parametrize(
    ("read", "messages", "path"),
    [
        (
            read_qrels,
            [pb.TopicQrels(), pb.TopicQrels(document_ids=["a"], joined_document_ids="a")],
            "trec.qrels[1].joined_document_ids",
        ),
        (
            read_run,
            [pb.TopicRun(), pb.TopicRun(document_ids=["a"], joined_document_ids="a")],
            "trec.run[1].joined_document_ids",
        ),
        (read_run, [pb.TopicRun(scores=[1.0], score_bytes=pack(1.0))], "trec.run[0].score_bytes"),
        (read_run, [pb.TopicRun(score_bytes=bytes(9))], "trec.run[0].score_bytes"),
    ],
)
def test_two_forms_and_half_a_score_are_refused(read, messages, path):
    with pytest.raises(InvalidField) as caught:
        read(messages)
    assert caught.value.field == path
