from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.judges.lexical import texts as module
from judged_server.judges.lexical.texts import PUBLISHED, ranges

from tests.unit.server.judges import reference


def words_of(texts: list[str]) -> list[list[str]]:
    table = PUBLISHED.tokens(texts)
    words = [word.decode() for word in table.words(np.arange(len(table.keys)))]
    return [words[i:j] for i, j in zip(table.first, table.first[1:], strict=False)]


@pytest.fixture(params=[1 << 19, 8, 1])
def block_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", request.param)


@pytest.mark.usefixtures("block_bytes")
def test_tokens_of_texts_in_blocks_of_any_size() -> None:
    texts = [
        "",
        "a",
        "No 1.",
        "\n\n",
        "\u212a\u0130é x" * 5,
        "é",
        "longer words than eight bytes",
        "",
    ]
    assert words_of(texts) == [reference.tokens(text) for text in texts]
    assert words_of([]) == []
    assert words_of([""]) == [[]]


@given(st.lists(reference.texts, max_size=5))
def test_tokens_are_those_of_the_definition(texts: list[str]) -> None:
    expected = [reference.tokens(text) for text in texts]
    assert words_of(texts) == expected
    table = PUBLISHED.tokens(texts)
    words = [word for text in expected for word in text]
    assert table.counts.tolist() == [len(text) for text in expected]
    assert table.lengths.tolist() == [len(word) for word in words]
    assert table.numeric.tolist() == [word.isdigit() for word in words]


@given(st.lists(st.text("ab1", min_size=1, max_size=40), min_size=1))
def test_tokens_share_a_key_when_they_are_equal(words: list[str]) -> None:
    table = PUBLISHED.tokens([" ".join(words)])
    keys = table.keys.tolist()
    assert len(set(zip(keys, words, strict=True))) == len(set(keys)) == len(set(words))


def test_keys_of_long_tokens_differ_wherever_the_tokens_do() -> None:
    words = {"a" * n for n in range(1, 70)}
    words |= {"a" * i + "b" + "a" * (63 - i) for i in range(64)}
    assert len(set(PUBLISHED.tokens([" ".join(words)]).keys.tolist())) == len(words)


def test_texts_that_utf_8_cannot_write_are_read_all_the_same() -> None:
    assert words_of(["one\ud800two", "three"]) == [["one", "two"], ["three"]]


def test_joints() -> None:
    table = PUBLISHED.tokens(["return values of retrieval"])
    left, right = np.array([0, 1]), np.array([1, 3])
    raw = [int(joint).to_bytes(4, "little") for joint in table.joints(left, right)]
    assert raw == [b"varn", b"rees"]


def test_ranges() -> None:
    assert ranges(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert ranges(np.array([], int), np.array([], int)).tolist() == []
