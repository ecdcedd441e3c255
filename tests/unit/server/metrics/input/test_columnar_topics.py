"""Topics in columns, taken apart."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.errors import InvalidField
from judged_server.metrics.input.columnar_topics import ColumnarTopics, query_ids
from judged_server.metrics.input.trec_topics import Topic

IDS = st.text(st.sampled_from("ab\0é😀 \r\x85\u2028"), max_size=5)
TOPICS = st.lists(st.lists(st.tuples(IDS, st.floats(-9, 9)), max_size=4), max_size=6).map(
    lambda topics: [
        Topic(f"q{i}", [name for name, _ in some], [value for _, value in some])
        for i, some in enumerate(topics)
    ]
)


def columns(topics):
    return ColumnarTopics.of(
        [topic.query_id for topic in topics],
        np.array([len(topic.document_ids) for topic in topics], np.int64),
        "\n".join(name for topic in topics for name in topic.document_ids),
        np.array([value for topic in topics for value in topic.values], np.float64),
        "f",
    )


@given(TOPICS, st.data())
def test_columns_hold_what_their_topics_did(topics, data):
    joined = columns(topics)
    assert list(joined) == topics
    assert query_ids(joined) == query_ids(topics)
    begin = data.draw(st.integers(0, len(topics)))
    end = data.draw(st.integers(begin, len(topics)))
    assert list(joined[begin:end]) == topics[begin:end]
    assert list(joined[begin:end][:1]) == topics[begin:end][:1]


@given(TOPICS, st.data())
def test_topics_can_be_chosen_in_any_order(topics, data):
    places = data.draw(st.lists(st.none() | st.sampled_from(range(len(topics) or 1)), max_size=7))
    places = [at for at in places if at is None or at < len(topics)]
    nothing = Topic("", [], [])
    chosen = columns(topics).chosen(places)
    assert list(chosen) == [nothing if at is None else topics[at] for at in places]
    assert chosen.lines.counts.tolist() == [len(topic.document_ids) for topic in chosen]


def test_all_in_their_order_are_the_same():
    joined = columns([Topic("q", ["a"], [1.0]), Topic("r", [], [])])
    assert joined.chosen([0, 1]) is joined
    assert joined.chosen([0]) is not joined


def test_without_values_they_are_the_places():
    topics = ColumnarTopics.of(["q", "r"], np.array([3, 1]), "a\nb\nc\nd", None, "f")
    assert [topic.values for topic in topics] == [[0, -1, -2], [0]]


@pytest.mark.parametrize(
    ("ids", "counts", "text", "values", "refusal"),
    [
        (["q"], [1, 2], "a", [1], "f.n_documents: has 2 entries for 1 topics"),
        (["q"], [2], "a", [1], "f.document_ids: must have the 2 ids that n_documents add up to"),
        (["q"], [2], "a\nb", [1], "f.values: has 1 entries for 2 documents"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(ids, counts, text, values, refusal):
    with pytest.raises(InvalidField) as caught:
        ColumnarTopics.of(ids, np.array(counts, np.int64), text, np.array(values, np.float64), "f")
    assert caught.value.message.startswith(refusal)


def test_the_ids_of_topics_of_any_kind():
    assert query_ids([Topic("a", []), Topic("b", [])]) == ["a", "b"]
