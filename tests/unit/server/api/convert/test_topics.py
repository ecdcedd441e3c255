"""The topics of a request, in each of their forms."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from judged.v1 import metrics_pb2
from judged_server.api.convert.topics import read_qrels, read_run
from judged_server.errors import InvalidField
from judged_server.metrics.input import trec as topics

NAN, INFINITY = float("nan"), float("inf")


def doubles(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}d", *numbers)


def columns(query_ids=(), n_documents=(), document_ids="", values=()):
    return metrics_pb2.TopicColumns(
        query_ids=query_ids,
        n_documents=n_documents,
        document_ids=document_ids,
        values=values if isinstance(values, bytes) else doubles(*values),
    )


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
    assert seen(read_qrels(one_by_one).topics) == expected
    assert seen(read_qrels(metrics_pb2.TrecRankings(qrels_columns=joined)).topics) == expected


def test_runs_read_alike_in_both_forms():
    one_by_one = metrics_pb2.TrecRankings(
        run=[
            metrics_pb2.TopicRun(query_id="q", document_ids=["b", "a"], scores=[0.5, -1.0]),
            metrics_pb2.TopicRun(query_id="r", document_ids=["c"], scores=[2.0]),
        ]
    )
    joined = columns("qr", [2, 1], "b\na\nc", [0.5, -1.0, 2.0])
    expected = [("q", ["b", "a"], [0.5, -1.0]), ("r", ["c"], [2.0])]
    assert seen(read_run(one_by_one)) == expected
    assert seen(read_run(metrics_pb2.TrecRankings(run_columns=joined))) == expected


def test_without_scores_the_places_are_the_scores():
    run = read_run(metrics_pb2.TrecRankings(run_columns=columns("qr", [3, 1], "a\nb\nc\nd")))
    assert run.values.tolist() == [0, -1, -2, 0]


@pytest.mark.parametrize(
    ("run", "path"),
    [
        (columns("", [1], "a"), "n_documents"),
        (columns("q", [2]), "document_ids"),
        (columns("q", [0], "a"), "document_ids"),
        (columns("q", [2], "a\nb\n"), "document_ids"),
        (columns("q", [1], "a", bytes(9)), "values"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(run, path):
    with pytest.raises(InvalidField) as caught:
        read_run(metrics_pb2.TrecRankings(run_columns=run))
    assert caught.value.field == f"trec.run_columns.{path}"


@pytest.mark.parametrize("grade", [0.5, NAN, INFINITY, -INFINITY, 2.0**31, -(2.0**31) - 1])
def test_a_grade_that_is_no_whole_number_is_named(grade):
    joined = columns("qr", [1, 2], "a\na\nb", [1, 2, grade])
    with pytest.raises(InvalidField, match="whole number") as caught:
        read_qrels(metrics_pb2.TrecRankings(qrels_columns=joined))
    assert caught.value.field == "trec.qrels[1].grades[1]"


def test_more_unscored_documents_than_single_precision_counts_are_refused(monkeypatch):
    monkeypatch.setattr(topics, "MAX_UNSCORED", 2)
    joined = columns("qr", [1, 3], "x\na\nb\nc")
    with pytest.raises(InvalidField, match="give scores") as caught:
        read_run(metrics_pb2.TrecRankings(run_columns=joined))
    assert caught.value.field == "trec.run[1].document_ids"
