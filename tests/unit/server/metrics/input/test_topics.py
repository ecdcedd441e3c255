"""Topics in one form, and their ids compared without a string of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.errors import InvalidField
from judged_server.metrics.input import trec as topics
from judged_server.metrics.input.trec import LARGEST_SINGLE, MAX_ID_BYTES, Ids, Topics

from tests.trec import Topic, run_of

NAN, INFINITY = float("nan"), float("inf")
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


def test_the_same_id_in_another_topic_is_another_document():
    assert first_alike(["a", "b"], ["b", "a"]) == [0, 1, 2, 3]


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


def test_without_scores_they_are_the_places():
    columns = ["q", "r"], np.array([3, 1]), "a\nb\nc\nd", None, ("f", "g"), "scores"
    assert Topics.of_columns(*columns).values.tolist() == [0, -1, -2, 0]
    assert run_of([Topic("q", "abc"), Topic("r", "d")]).values.tolist() == [0, -1, -2, 0]


@pytest.mark.parametrize(
    ("ids", "counts", "text", "values", "refusal"),
    [
        (["q"], [1, 2], "a", [1], "g.n_documents: has 2 entries for 1 topics"),
        (["q"], [2], "a", [1], "g.document_ids: must have the 2 ids that n_documents add up to"),
        (["q"], [0], "a", [1], "g.document_ids: must have the 0 ids that n_documents add up to"),
        (["q"], [1], "\n", [1], "g.document_ids: must have the 1 ids that n_documents add up to"),
        (["q"], [2], "a\nb", [1], "g.values: has 1 entries for 2 documents"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(ids, counts, text, values, refusal):
    columns = ids, np.array(counts, np.int64), text, np.array(values, np.float64)
    with pytest.raises(InvalidField) as caught:
        Topics.of_columns(*columns, ("f", "g"), "grades")
    assert caught.value.message.startswith(refusal)


def test_as_many_unscored_documents_as_single_precision_counts_are_fine(monkeypatch):
    assert np.float32(topics.MAX_UNSCORED - 1) != np.float32(topics.MAX_UNSCORED)
    monkeypatch.setattr(topics, "MAX_UNSCORED", 3)
    assert len(run_of([Topic("q", "abc")]).values) == 3
    columns = ["p", "q"], np.array([1, 4]), "a\na\nb\nc\nd", None, ("trec.run", "g"), "scores"
    for read in (
        lambda: run_of([Topic("p", "a"), Topic("q", "abcd")]),
        lambda: Topics.of_columns(*columns),
    ):
        with pytest.raises(InvalidField) as caught:
            read()
        assert caught.value.message == (
            "trec.run[1].document_ids: holds 4 documents without scores; give scores, or 3 at most"
        )


@pytest.mark.parametrize("number", [NAN, INFINITY, -INFINITY, 2 * LARGEST_SINGLE, -3.5e38])
def test_the_first_number_beyond_single_precision_is_named(number):
    run = run_of([Topic("q", "a", [-LARGEST_SINGLE]), Topic("r", "abc", [0, number, number])])
    with pytest.raises(InvalidField) as caught:
        run.check_values()
    assert caught.value.message == (
        "trec.run[1].scores[1]: must be a finite number within single precision, +-3.4e38"
    )
