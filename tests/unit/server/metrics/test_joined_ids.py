"""Finding judged documents among retrieved ones without a string of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.metrics import joined_ids
from judged_server.metrics.joined_ids import MAX_ID_BYTES, match_joined, split_ids

IDS = st.text(st.sampled_from("ab\0\x7fé€😀"), min_size=1, max_size=9) | st.text(
    st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=40
)
TOPICS = st.lists(
    st.tuples(st.lists(IDS, unique=True, max_size=8), st.lists(IDS, unique=True, max_size=8)),
    max_size=6,
)


def joined(topics, side):
    return ["\n".join(topic[side]) for topic in topics]


@given(TOPICS, st.randoms(use_true_random=False))
def test_what_is_found_is_what_a_dict_finds(topics, rng):
    topics = [(run, qrels + rng.sample(run, len(run) // 2)) for run, qrels in topics]
    topics = [(run, list(dict.fromkeys(qrels))) for run, qrels in topics]
    found = match_joined(joined(topics, 0), joined(topics, 1))
    assert found is not None
    assert found.n_retrieved.tolist() == [len(run) for run, _ in topics]
    assert found.n_judged.tolist() == [len(qrels) for _, qrels in topics]
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
    assert match_joined(retrieved, judged) is None


def test_the_longest_id_and_an_empty_one_are_found():
    longest = "é" * (MAX_ID_BYTES // 2)
    found = match_joined([f"{longest}\n\nb"], [f"\n{longest}"])
    assert (found.judged.tolist(), found.retrieved.tolist()) == ([0, 1], [1, 0])


def test_the_same_id_in_another_topic_is_another_document():
    found = match_joined(["a", "b"], ["b", "b"])
    assert (found.judged.tolist(), found.retrieved.tolist()) == ([1], [1])


@pytest.mark.parametrize(
    ("retrieved", "judged"),
    [(["a"], ["b"]), (["ab"], ["a"]), (["a", ""], ["", "a"]), (["x" * 12 + "a"], ["x" * 12 + "b"])],
)
def test_equal_hashes_are_not_enough(monkeypatch, retrieved, judged):
    assert match_joined(retrieved, judged).judged.tolist() == []
    monkeypatch.setattr(
        joined_ids._Lines, "hashes", lambda lines: np.zeros(len(lines.lengths), np.uint64)
    )
    assert match_joined(retrieved, judged) is None


def test_equal_hashes_of_equal_ids_are(monkeypatch):
    monkeypatch.setattr(
        joined_ids._Lines, "hashes", lambda lines: np.zeros(len(lines.lengths), np.uint64)
    )
    found = match_joined(["x" * 12 + "a"], ["x" * 12 + "a"])
    assert (found.judged.tolist(), found.retrieved.tolist()) == ([0], [0])


def test_nothing_has_no_ids():
    assert split_ids("") == []
    assert split_ids("a\n") == ["a", ""]
    assert match_joined([], []).n_judged.tolist() == []
