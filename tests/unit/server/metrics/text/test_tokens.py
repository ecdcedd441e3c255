from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.metrics.text import tokens
from judged_server.metrics.text.tokens import ANSWER, STEMS, THIRTEEN_A

TEXTS = st.text(alphabet="aBthe 1.,-'\u2019\t\n\u00a0é<&;!", max_size=60)


def split(text, form):
    return tokens.TokenStore(form, set()).of(text)


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        (THIRTEEN_A, "It's 3.5%, (U.S.)", ["It's", "3.5", "%", ",", "(", "U", ".", "S", ".", ")"]),
        (THIRTEEN_A, "1...5 a..5 2-3 x-y", [*"1..", ".5", *"a.", ".5", *"2-3", "x-y"]),
        (THIRTEEN_A, "co-\noperate &amp; <skipped>go", ["cooperate", "&", "go"]),
        (STEMS, "Cats' relational 2.5 the flies", ["cat", "relat", "2", "5", "the", "fli"]),
        (ANSWER, "The U.S. an-x l\u2019a!", ["us", "anx", "l\u2019"]),
    ],
)
def test_forms(form, text, expected):
    assert split(text, form) == expected


@pytest.mark.parametrize("form", [THIRTEEN_A, STEMS, ANSWER], ids=lambda form: form.name)
@given(text=TEXTS)
def test_cutting_a_text_changes_nothing(form, text):
    cut = tokens.TokenStore(form, set(), piece_characters=4, most_words=2)
    assert cut.of(text) == split(text, form)


def test_what_is_kept_is_bounded():
    texts = [f"a b {i}" for i in range(10)]
    store = tokens.TokenStore(THIRTEEN_A, set(texts), most_tokens=3)
    first = [store.of(text) for text in texts]
    assert first == [text.split() for text in texts]
    assert store.of(texts[-1]) is first[-1], "it is kept"
    assert store.of(texts[0]) == first[0]
    assert store.of(texts[0]) is not first[0], "others took its place"


def test_only_texts_that_come_again_are_kept():
    store = tokens.TokenStore(THIRTEEN_A, {"a b"})
    assert store.of("a b") is store.of("a b")
    assert store.of("c d") is not store.of("c d")
