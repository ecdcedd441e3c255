"""Judgements and runs as messages: joined and packed where that is possible."""

from __future__ import annotations

import struct

import pytest
from judged import InvalidArgument, MetricOptions, TrecRankings
from judged._messages import write_metrics, write_options


def write(qrels, run):
    return write_metrics(["ap"], TrecRankings(qrels, run), MetricOptions()).trec


def test_ids_are_joined_and_scores_packed():
    trec = write({"q": {"a": 1, "é": -2}}, {"q": {"b": 0.5, "a": 2}, "r": ["x", "", "y"]})
    (qrels,), (scored, ranked) = trec.qrels, trec.run
    assert (qrels.query_id, qrels.joined_document_ids) == ("q", "a\né")
    assert list(qrels.grades) == [1, -2]
    assert (scored.query_id, scored.joined_document_ids) == ("q", "b\na")
    assert scored.score_bytes == struct.pack("<2d", 0.5, 2)
    assert (ranked.joined_document_ids, ranked.score_bytes) == ("x\n\ny", b"")
    for topic in (qrels, scored, ranked):
        assert not topic.document_ids
    assert not scored.scores


@pytest.mark.parametrize("ids", [["a\nb", "c"], ["\n"], [""], []])
def test_ids_that_can_not_be_joined_travel_one_by_one(ids):
    trec = write({"q": dict.fromkeys(ids, 1)}, {"q": ids, "r": dict.fromkeys(ids, 0.5)})
    for topic in (*trec.qrels, *trec.run):
        assert list(topic.document_ids) == ids
        assert topic.joined_document_ids == ""


@pytest.mark.parametrize("value", [-1, 0, 1 << 31])
@pytest.mark.parametrize("name", ["relevance_level", "max_documents"])
def test_whole_numbers_of_the_options_stay_in_their_range(name, value):
    with pytest.raises(InvalidArgument) as caught:
        write_options(MetricOptions(**{name: value}))
    assert caught.value.field == f"options.{name}"
    assert getattr(write_options(MetricOptions(**{name: 7})), name) == 7
