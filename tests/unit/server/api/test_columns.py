"""Columns of requests: which are refused, where, and in which words."""

from __future__ import annotations

import pytest
from judged.v1 import metrics_pb2, statistics_service_pb2, verdicts_pb2
from judged_server.api.columns import VALUES_OF_TEXTS, read_columns
from judged_server.errors import InvalidField, LimitExceeded

NAN = float("nan")


def scored(**fields):
    given = {"scores": [0.2, 0.4, 1], "labelled": [0, 2], "labels": [True, False]} | fields
    return statistics_service_pb2.CalibrateRequest(**given)


def stage(**fields):
    return statistics_service_pb2.ScoredStage(**{"scores": [0.2, 0.4, 1]} | fields)


def test_the_columns_with_an_interval_are_read():
    found = read_columns(scored())
    assert {name: column.tolist() for name, column in found.items()} == {
        "scores": [0.2, 0.4, 1],
        "labelled": [0, 2],
        "inclusion_probabilities": [],
    }


@pytest.mark.parametrize(
    ("fields", "field", "rule"),
    [
        ({"scores": []}, "scores", "must hold at least one score"),
        ({"scores": [0, NAN]}, "scores[1]", "must be from 0 to 1"),
        ({"labelled": []}, "labelled", "must hold at least one item that has a label"),
        ({"labelled": [0, 3]}, "labelled[1]", "must be below 3, the number of scores"),
        (
            {"labelled": [1, 1]},
            "labelled[1]",
            "must be above the entry before it; sort, each once",
        ),
        ({"labels": [True]}, "labels", "has 1 entries for 2 labelled"),
        ({"clusters": [7]}, "clusters", "has 1 entries for 3 scores"),
        (
            {"inclusion_probabilities": [1, 0]},
            "inclusion_probabilities[1]",
            "must be above 0 and at most 1",
        ),
    ],
)
def test_a_column_that_breaks_its_rule(fields, field, rule):
    with pytest.raises(InvalidField) as caught:
        read_columns(scored(**fields))
    assert (caught.value.field, caught.value.rule) == (field, rule)


def test_a_column_above_its_limit():
    labels = statistics_service_pb2.CalibrateCascadeRequest(labels=[True] * 20_001)
    with pytest.raises(LimitExceeded) as caught:
        read_columns(labels)
    assert caught.value.field == "labels"


def test_the_scores_of_missing_items_are_not_read():
    message = stage(scores=[0.2, NAN, 7], missing=[1, 2])
    found = read_columns(message, "stages[0]", labels=3)
    assert found["scores"][0] == 0.2
    with pytest.raises(InvalidField) as caught:
        read_columns(stage(scores=[0.2, NAN, 7], missing=[2]), "stages[0]", labels=3)
    assert caught.value.field == "stages[0].scores[1]"


def test_a_value_of_a_text_may_be_missing_and_one_of_a_query_not():
    column = metrics_pb2.ValueColumn(values=[0.5, NAN])
    read_columns(column, "values[0]", VALUES_OF_TEXTS, items=2)
    with pytest.raises(InvalidField) as caught:
        read_columns(column, "values.columns[0]", query_ids=2)
    assert caught.value.field == "values.columns[0].values[1]"


def test_a_status_that_no_reply_has_is_told_by_the_names_that_there_are():
    sent = verdicts_pb2.VerdictColumns(relevant=[True], status=[9])
    with pytest.raises(InvalidField, match="must be one of VERDICT_STATUS_OK, ") as caught:
        read_columns(sent, "judged.verdicts", contexts=1)
    assert caught.value.field == "judged.verdicts.status[0]"
