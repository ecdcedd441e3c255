"""Topics in one form, and their ids compared without a string of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.metrics.input.trec import MAX_ID_BYTES, Ids, Topics

from tests.trec import Topic, run_of

NAMES = st.text(st.sampled_from("ab\0\x7fé€😀\n\r\x85\u2028"), max_size=9) | st.text(max_size=40)


def first_alike(*names):
    """The place of the first equal id of each, topic after topic."""
    topic_of = np.repeat(np.arange(len(names)), [len(some) for some in names])
    return Ids.of(names).first_alike(topic_of).tolist()


def defined(names):
    first: dict[tuple[int, str], int] = {}
    keys = [(i, name) for i, some in enumerate(names) for name in some]
    return [first.setdefault(key, place) for place, key in enumerate(keys)]


@given(st.lists(st.lists(NAMES, max_size=8), max_size=6), st.booleans())
def test_the_first_of_equal_ids_is_found_whatever_hashes_say(names, collide):
    with pytest.MonkeyPatch.context() as patch:
        if collide:
            patch.setattr(Ids, "hashes", lambda ids, _: np.zeros(len(ids.starts), np.uint64))
        assert first_alike(*names) == defined(names)


@pytest.mark.parametrize(
    "names",
    [
        ["ab", "b", "ab", "ab", "b", "ab"],
        ["", "a", ""],
        ["x" * 40 + "a", "x" * 40 + "b", "x" * 40 + "a"],
        ["é" * (MAX_ID_BYTES // 2), "a", "é" * (MAX_ID_BYTES // 2)],
        ["a" * (MAX_ID_BYTES + 1), "b", "a" * (MAX_ID_BYTES + 1), "b"],
        ["a\nb", "a", "b", "a\nb", "\n"],
    ],
)
def test_ids_of_any_length_and_letters(names):
    assert first_alike(names, names) == defined([names, names])


@given(st.lists(st.lists(st.tuples(NAMES, st.floats(-9, 9)), max_size=4), max_size=6))
def test_both_forms_hold_what_was_sent(pairs):
    sent = [
        Topic(f"q{i}", [name for name, _ in some], [value for _, value in some])
        for i, some in enumerate(pairs)
    ]
    joined = "\n".join(name for topic in sent for name in topic.document_ids)
    read = [run_of(sent)]
    if joined.count("\n") == max(sum(map(len, pairs)) - 1, 0):
        counts = np.array([len(some) for some in pairs], np.int64)
        values = np.array([value for topic in sent for value in topic.values], np.float64)
        ids = [topic.query_id for topic in sent]
        read.append(Topics.of_columns(ids, counts, joined, values, ("f", "g"), "scores"))
    for found in read:
        assert [found.names(i) for i in range(len(found))] == [list(t.document_ids) for t in sent]
        assert found.values.tolist() == [value for topic in sent for value in topic.values]
        assert (found.counts.tolist(), found.query_ids[:1]) == (
            list(map(len, pairs)),
            [topic.query_id for topic in sent[:1]],
        )
