"""Judgements and runs as messages: joined and packed where that is possible."""

from __future__ import annotations

import struct
from array import array

import pytest
from judged import InvalidArgument, MetricOptions, ScoredDocuments, TrecRankings
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


def test_columns_travel_as_mappings_and_lists_do():
    columns = {
        "q": ScoredDocuments(["b", "a"], array("f", [0.5, 2])),
        "r": ScoredDocuments(("x", "y")),
    }
    assert write({}, columns) == write({}, {"q": {"b": 0.5, "a": 2}, "r": ["x", "y"]})


def test_columns_of_two_lengths_are_left_to_the_server():
    (topic,) = write({}, {"q": ScoredDocuments(["a", "b"], [1.0])}).run
    assert (topic.joined_document_ids, topic.score_bytes) == ("a\nb", struct.pack("<d", 1))


@pytest.mark.parametrize("ids", [["a\nb", "c"], ["\n"], [""], []])
def test_ids_that_can_not_be_joined_travel_one_by_one(ids):
    trec = write({"q": dict.fromkeys(ids, 1)}, {"q": ids, "r": dict.fromkeys(ids, 0.5)})
    for topic in (*trec.qrels, *trec.run):
        assert list(topic.document_ids) == ids
        assert topic.joined_document_ids == ""


@pytest.mark.parametrize(
    ("qrels", "run", "field", "rule"),
    [
        ({"q": {"a": 1}, 2: {}}, {}, "trec.qrels[1].query_id", "must be text, not int"),
        ({"q": {1: 1}}, {}, "trec.qrels[0].document_ids[0]", "must be text, not int"),
        ({"q": {"a": "x"}}, {}, "trec.qrels[0].grades[0]", "must be a number, not str"),
        ({"q": {"a": 0.5}}, {}, "trec.qrels[0]", "float"),
        ({}, {"q": ["a", None]}, "trec.run[0].document_ids[1]", "must be text, not NoneType"),
        ({}, {"q": ["a", "\ud800"]}, "trec.run[0].document_ids[1]", "a lone surrogate"),
        ({}, {"q": "abc"}, "trec.run[0]", "must be a list of ids, not one text"),
        ({}, {"q": {"a": "x"}}, "trec.run[0].scores[0]", "must be a number, not str"),
        ({}, {"q": ScoredDocuments(["a"], [None])}, "trec.run[0].scores[0]", "not NoneType"),
    ],
)
def test_what_no_message_can_hold_is_named(qrels, run, field, rule):
    with pytest.raises(InvalidArgument, match=rule) as caught:
        write(qrels, run)
    assert caught.value.field == field


@pytest.mark.parametrize("value", [-1, 0, 1 << 31])
@pytest.mark.parametrize("name", ["relevance_level", "max_documents"])
def test_whole_numbers_of_the_options_stay_in_their_range(name, value):
    with pytest.raises(InvalidArgument) as caught:
        write_options(MetricOptions(**{name: value}))
    assert caught.value.field == f"options.{name}"
    assert getattr(write_options(MetricOptions(**{name: 7})), name) == 7
