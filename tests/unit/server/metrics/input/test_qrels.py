"""What qrels say without a run; what they refuse is in test_trec, beside runs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.errors import InvalidField
from judged_server.metrics.input.columnar_topics import ColumnarTopics
from judged_server.metrics.input.qrels import Qrels
from judged_server.metrics.input.trec_topics import Topic

TOPICS = [
    Topic("q", ["a", "b", "c", "d"], [0, 2, -1, 3]),
    Topic("r", [], []),
    Topic("s", ["a", "e"], [1, 0]),
]


def in_columns(topics):
    return ColumnarTopics.of(
        [topic.query_id for topic in topics],
        np.array([len(topic.document_ids) for topic in topics], np.int64),
        "\n".join(name for topic in topics for name in topic.document_ids),
        np.array([float(grade) for topic in topics for grade in topic.values]),
        "qrels",
    )


FORMS = pytest.mark.parametrize("form", [list, in_columns])


def said(qrels):
    offsets, gains = qrels.ideal
    arrays = (qrels.offsets, qrels.grades, offsets, gains, qrels.n_nonrelevant)
    return dict(qrels.row_of), [array.tolist() for array in arrays]


@FORMS
def test_grades_lie_end_to_end_and_the_ideal_is_what_could_be_found(form):
    assert said(Qrels.of(form(TOPICS))) == (
        {"q": 0, "r": 1, "s": 2},
        [[0, 4, 4, 6], [0, 2, -1, 3, 1, 0], [0, 2, 2, 3], [3, 2, 1], [1, 0, 1]],
    )


@FORMS
def test_nothing_is_judged(form):
    assert said(Qrels.of(form([]))) == ({}, [[0], [], [0], [], []])


@FORMS
@given(rows=st.sets(st.integers(0, 2)).map(sorted))
def test_chosen_topics_are_the_qrels_of_these_alone(form, rows):
    some = Qrels.of(form(TOPICS)).chosen(rows)
    assert said(some) == said(Qrels.of(form([TOPICS[row] for row in rows])))
    assert [list(topic.document_ids) for topic in some.topics] == [
        TOPICS[row].document_ids for row in rows
    ]


def test_paths_begin_with_the_field():
    for topics, path in (
        ([TOPICS[0], TOPICS[0]], "judgements[1].query_id"),
        ([TOPICS[1], Topic("x", ["a", "a"], [1, 1])], "judgements[1].document_ids[1]"),
        ([Topic("x", ["a"], [float("inf")])], "judgements[0].grades[0]"),
        ([Topic("x", ["a"], [])], "judgements[0].grades"),
    ):
        with pytest.raises(InvalidField) as caught:
            Qrels.of(topics, "judgements")
        assert caught.value.field == path
