"""The topics of a request, in each of their forms."""

from __future__ import annotations

import struct

import pytest
from judged.v1 import judge_service_pb2 as pb
from judged_server.api.convert.topics import read_qrels, read_run
from judged_server.errors import InvalidField
from judged_server.metrics.input import trec_topics

NAN, INFINITY = float("nan"), float("inf")


def doubles(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


def columns(query_ids=(), n_documents=(), document_ids="", values=()):
    return pb.JoinedTopics(
        query_ids=query_ids,
        n_documents=n_documents,
        document_ids=document_ids,
        values=values if isinstance(values, bytes) else doubles(*values),
    )


def seen(topics):
    return [(t.query_id, list(t.document_ids), list(t.values)) for t in topics]


def test_qrels_read_alike_in_both_forms():
    one_by_one = pb.TrecRankings(
        qrels=[
            pb.TopicQrels(query_id="q", document_ids=["a", "é"], grades=[1, -2]),
            pb.TopicQrels(query_id="r"),
            pb.TopicQrels(query_id="s", document_ids=[""], grades=[2**31 - 1]),
        ]
    )
    joined = columns("qrs", [2, 0, 1], "a\né\n", [1, -2, 2**31 - 1])
    expected = [
        ("q", ["a", "é"], [1, -2]), ("r", [], []), ("s", [""], [2**31 - 1])
    ]  # fmt: skip
    assert seen(read_qrels(one_by_one).topics) == expected
    assert seen(read_qrels(pb.TrecRankings(joined_qrels=joined)).topics) == expected


def test_runs_read_alike_in_both_forms():
    one_by_one = pb.TrecRankings(
        run=[
            pb.TopicRun(query_id="q", document_ids=["b", "a"], scores=[0.5, -1.0]),
            pb.TopicRun(query_id="r", document_ids=["c"], scores=[2.0]),
        ]
    )
    joined = columns("qr", [2, 1], "b\na\nc", [0.5, -1.0, 2.0])
    expected = [("q", ["b", "a"], [0.5, -1.0]), ("r", ["c"], [2.0])]
    assert seen(read_run(one_by_one)) == expected
    assert seen(read_run(pb.TrecRankings(joined_run=joined))) == expected


def test_without_scores_the_places_are_the_scores():
    (topic, other) = read_run(pb.TrecRankings(joined_run=columns("qr", [3, 1], "a\nb\nc\nd")))
    assert (topic.values, other.values) == ([0, -1, -2], [0])


def test_nothing_was_sent():
    assert seen(read_run(pb.TrecRankings())) == []
    assert seen(read_run(pb.TrecRankings(joined_run=columns()))) == []


QRELS = [pb.TopicQrels()]
RUN = [pb.TopicRun()]


@pytest.mark.parametrize(
    ("read", "message", "path"),
    [
        (read_qrels, {"qrels": QRELS, "joined_qrels": columns()}, "joined_qrels"),
        (read_run, {"run": RUN, "joined_run": columns()}, "joined_run"),
        (read_qrels, {}, "qrels"),
        (read_qrels, {"joined_qrels": columns()}, "qrels"),
        (read_qrels, {"joined_qrels": columns("q")}, "joined_qrels.n_documents"),
        (read_run, {"joined_run": columns("", [1], "a")}, "joined_run.n_documents"),
        (read_run, {"joined_run": columns("q", [2])}, "joined_run.document_ids"),
        (read_run, {"joined_run": columns("q", [0], "a")}, "joined_run.document_ids"),
        (read_run, {"joined_run": columns("q", [2], "a\nb\n")}, "joined_run.document_ids"),
        (read_run, {"joined_run": columns("q", [2**24], "a")}, "joined_run.document_ids"),
        (read_run, {"joined_run": columns("q", [1], "a", bytes(9))}, "joined_run.values"),
        (read_run, {"joined_run": columns("q", [1], "a", [1, 2])}, "joined_run.values"),
        (read_qrels, {"joined_qrels": columns("q", [1], "a")}, "joined_qrels.values"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(read, message, path):
    with pytest.raises(InvalidField) as caught:
        read(pb.TrecRankings(**message))
    assert caught.value.field == f"trec.{path}"


@pytest.mark.parametrize("grade", [0.5, NAN, INFINITY, -INFINITY, 2.0**31, -(2.0**31) - 1])
def test_a_grade_that_is_no_whole_number_is_named(grade):
    joined = columns("qr", [1, 2], "a\na\nb", [1, 2, grade])
    with pytest.raises(InvalidField, match="whole number") as caught:
        read_qrels(pb.TrecRankings(joined_qrels=joined))
    assert caught.value.field == "trec.qrels[1].grades[1]"


def test_more_unscored_documents_than_single_precision_counts_are_refused(monkeypatch):
    monkeypatch.setattr(trec_topics, "MAX_UNSCORED", 2)
    joined = columns("qr", [1, 3], "x\na\nb\nc")
    with pytest.raises(InvalidField, match="give scores") as caught:
        read_run(pb.TrecRankings(joined_run=joined))
    assert caught.value.field == "trec.run[1].document_ids"
