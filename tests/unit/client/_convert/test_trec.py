"""Judgements and runs as messages: in columns where that is possible."""

from __future__ import annotations

import struct
from array import array

import pytest
from judged import InvalidArgument, MetricOptions, ScoredDocuments, TrecRankings
from judged._batching.parts import metric_parts
from judged._convert import write_options


def written(metrics, relevance, options, metadata=None, human_values=None):
    """Return the one request for metrics."""
    (request,) = metric_parts(metrics, relevance, options, metadata or {}, human_values)
    return request


def write(qrels, run):
    return written(["ap"], TrecRankings(qrels, run), MetricOptions()).trec


def doubles(*numbers):
    return struct.pack(f"<{len(numbers)}d", *numbers)


def test_topics_travel_in_columns():
    trec = write({"q": {"a": 1, "é": -2}}, {"q": {"b": 0.5, "a": 2}, "r": {}, "s": {"x": 7.0}})
    judged, retrieved = trec.qrels_columns, trec.run_columns
    assert (list(judged.query_ids), list(judged.n_documents)) == (["q"], [2])
    assert (judged.document_ids, judged.values) == ("a\né", doubles(1, -2))
    assert (list(retrieved.query_ids), list(retrieved.n_documents)) == (["q", "r", "s"], [2, 0, 1])
    assert (retrieved.document_ids, retrieved.values) == ("b\na\nx", doubles(0.5, 2, 7))
    assert not trec.qrels
    assert not trec.run


def test_a_run_without_scores_is_ranked_as_given():
    run = write({}, {"q": ["x", "", "y"], "r": [""], "s": []}).run_columns
    assert (run.document_ids, run.values) == ("x\n\ny\n", b"")
    assert list(run.n_documents) == [3, 1, 0]


def test_columns_travel_as_mappings_and_lists_do():
    scored = {"q": ScoredDocuments(["b", "a"], array("f", [0.5, 2]))}
    assert write({}, scored) == write({}, {"q": {"b": 0.5, "a": 2}})
    assert write({}, {"q": ScoredDocuments(("x", "y"))}) == write({}, {"q": ["x", "y"]})


@pytest.mark.parametrize(
    ("qrels", "run", "field", "rule"),
    [
        ({"q": {"a": 1}, 2.5: {}}, {}, "qrels[2.5]", "whole number, not float"),
        ({"q": {True: 1}}, {}, "trec.qrels[0].document_ids[0]", "whole number, not bool"),
        ({"q": {"a": "x"}}, {}, "trec.qrels", "grades that are no numbers"),
        ({}, {"q": ["a", None]}, "trec.run[0].document_ids[1]", "whole number, not None"),
        ({}, {"q": ["a", "\ud800"]}, "trec.run", "a lone surrogate"),
        ({}, {"q": "abc"}, "trec.run[0].document_ids", "must be a list of ids, not one text"),
        ({}, {"q": ["a\nb", "c"]}, "trec.run[0].document_ids", "a line feed"),
        ({}, {"q": ["\n"]}, "trec.run[0].document_ids", "a line feed"),
        ({}, {"q": ScoredDocuments(["a"], [None])}, "trec.run", "scores that are no numbers"),
        ({}, {"q": ScoredDocuments(["a", "b"], [1.0])}, "trec.run[0].scores", "1 entries for 2"),
        ({}, {"q": ["x"], "r": {"a": 0.5}}, "trec.run[0].scores", "0 entries for 1"),
    ],
)
def test_what_no_message_can_hold_is_named(qrels, run, field, rule):
    with pytest.raises(InvalidArgument, match=rule) as caught:
        write(qrels, run)
    assert caught.value.field == field


@pytest.mark.parametrize("value", [-1, 1 << 32])
@pytest.mark.parametrize("name", ["relevance_level", "max_documents"])
def test_whole_numbers_that_no_field_holds_are_named(name, value):
    with pytest.raises(InvalidArgument) as caught:
        write_options(MetricOptions(**{name: value}), "trec")
    assert caught.value.field == f"options.{name}"
    assert getattr(write_options(MetricOptions(**{name: 7}), "trec").qrels, name) == 7
