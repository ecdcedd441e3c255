from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.metrics.text import tokens
from judged_server.metrics.text.porter_stemmer import stem
from judged_server.metrics.text.tokens import ANSWER, STEMS, THIRTEEN_A

TEXTS = st.text(alphabet="aBthe 1.,-'\u2019\t\n\u00a0é<&;!", max_size=60)


def split(text, form):
    return tokens.TokenStore(form).of(text)


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
    whole = split(text, form)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_WORDS_AT_ONCE", 2)
        patch.setattr(tokens, "MAX_KEPT_WORDS", 2)
        assert split(text, form) == whole


PAIRS = """caresses caress  ponies poni  ties tie  cats cat  feed feed  agreed agre
    plastered plaster
    motoring motor  sing sing  conflated conflat  troubled troubl  sized size  hopping hop
    falling fall  hissing hiss  failing fail  filing file  happy happi  sky sky  enjoy enjoy
    relational relat  conditional condit  digitizer digit  conformabli conform
    vietnamization vietnam  triplicate triplic  formative form  electrical electr
    hopeful hope  goodness good  revival reviv  adjustment adjust  adoption adopt
    probate probat  rate rate  cease ceas  controll control  roll roll  dying die  news news
    geologi geolog  by by  is is"""
CASES = PAIRS.split()


def test_the_papers_examples():
    assert [stem(word) for word in CASES[::2]] == CASES[1::2]
