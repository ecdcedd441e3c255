"""Finding judged documents among retrieved ones without a string of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.metrics.input.columnar_topics import MAX_ID_BYTES, Lines, match

IDS = st.text(st.sampled_from("ab\0\x7fé€😀"), min_size=1, max_size=9) | st.text(
    st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=40
)
TOPICS = st.lists(
    st.tuples(st.lists(IDS, unique=True, max_size=8), st.lists(IDS, unique=True, max_size=8)),
    max_size=6,
)


def lines(topics):
    """Topics of one or more ids, each topic a text."""
    counts = np.array([topic.count("\n") + 1 for topic in topics], np.int64)
    return Lines.of("\n".join(topics).encode(), counts)


def matched(retrieved, judged):
    return match(lines(retrieved), lines(judged))


def lines_of(topics):
    counts = np.array([len(ids) for ids in topics], np.int64)
    return Lines.of("\n".join(name for ids in topics for name in ids).encode(), counts)


@given(TOPICS, st.randoms(use_true_random=False))
def test_what_is_found_is_what_a_dict_finds(topics, rng):
    topics = [(run, qrels + rng.sample(run, len(run) // 2)) for run, qrels in topics]
    topics = [(run, list(dict.fromkeys(qrels))) for run, qrels in topics]
    found = match(lines_of([run for run, _ in topics]), lines_of([qrels for _, qrels in topics]))
    assert found is not None
    runs = {(i, name): None for i, (run, _) in enumerate(topics) for name in run}
    places = {key: place for place, key in enumerate(runs)}
    asked = [(i, name) for i, (_, qrels) in enumerate(topics) for name in qrels]
    expected = [(j, places[key]) for j, key in enumerate(asked) if key in places]
    assert list(zip(found.judged.tolist(), found.retrieved.tolist(), strict=True)) == expected


@pytest.mark.parametrize(
    ("retrieved", "judged"),
    [
        (["a\nb\na"], ["c"]),
        (["a\nb"], ["c\nc"]),
        (["x", "a\nb\na"], ["x", "a"]),
        (["a\n\n"], [""]),
        (["a" * (MAX_ID_BYTES + 1)], ["b"]),
        (["b"], ["a" * (MAX_ID_BYTES + 1)]),
    ],
)
def test_repeats_and_long_ids_take_a_closer_look(retrieved, judged):
    assert matched(retrieved, judged) is None


def test_the_longest_id_and_an_empty_one_are_found():
    longest = "é" * (MAX_ID_BYTES // 2)
    found = matched([f"{longest}\n\nb"], [f"\n{longest}"])
    assert (found.judged.tolist(), found.retrieved.tolist()) == ([0, 1], [1, 0])


def test_the_same_id_in_another_topic_is_another_document():
    found = matched(["a", "b"], ["b", "b"])
    assert (found.judged.tolist(), found.retrieved.tolist()) == ([1], [1])


@pytest.mark.parametrize(
    ("retrieved", "judged"),
    [(["a"], ["b"]), (["ab"], ["a"]), (["a", ""], ["", "a"]), (["x" * 40 + "a"], ["x" * 40 + "b"])],
)
def test_equal_hashes_are_not_enough(monkeypatch, retrieved, judged):
    assert matched(retrieved, judged).judged.tolist() == []
    monkeypatch.setattr(Lines, "hashes", lambda lines: np.zeros(len(lines.lengths), np.uint64))
    assert matched(retrieved, judged) is None


def test_equal_hashes_of_equal_ids_are(monkeypatch):
    monkeypatch.setattr(Lines, "hashes", lambda lines: np.zeros(len(lines.lengths), np.uint64))
    found = matched(["x" * 12 + "a"], ["x" * 12 + "a"])
    assert (found.judged.tolist(), found.retrieved.tolist()) == ([0], [0])


@given(TOPICS.map(lambda topics: [ids for ids, _ in topics]), st.data())
def test_topics_can_be_taken_out_of_lines(topics, data):
    whole = lines_of(topics)
    assert whole.counts.tolist() == list(map(len, topics))
    begin = data.draw(st.integers(0, len(topics)))
    end = data.draw(st.integers(begin, len(topics)))
    part = whole.topics(begin, end)
    assert part.counts.tolist() == list(map(len, topics[begin:end]))
    for i, ids in enumerate(topics[begin:end]):
        if ids:
            assert part.text_of(i).decode().split("\n") == ids


@pytest.mark.parametrize(
    ("text", "counts"), [("a", [0]), ("", [1, 1]), ("a\nb", [1]), ("a", [1, 1]), ("\n", [1])]
)
def test_counts_that_do_not_add_up_to_the_lines(text, counts):
    assert Lines.of(text.encode(), np.array(counts, np.int64)) is None


def test_nothing_has_no_ids():
    nothing = Lines.of(b"", np.zeros(0, np.int64))
    assert (len(nothing.starts), nothing.counts.tolist()) == (0, [])
    assert match(nothing, nothing).judged.tolist() == []
    assert Lines.of(b"", np.array([0, 1, 0])).counts.tolist() == [0, 1, 0]
