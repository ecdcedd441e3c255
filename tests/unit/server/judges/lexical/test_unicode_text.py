from __future__ import annotations

import re
import sys
import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.judges.lexical.texts import UNICODE, extent, normalise

from tests.unit.server.judges.reference import (
    contexts,
    group_lists,
    judge_of,
    one,
    ratio,
    scores_of,
)

UNSPACED = re.compile("[ぁ-ヿ一-鿿\u0e00-\u0e7f]+")


def tokens(text: str) -> list[str]:
    """The words of a text, for the scripts that the other texts of these tests use."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = unicodedata.normalize("NFKC", folded)
    spaced = "".join(
        character if unicodedata.category(character)[0] in "LNM" else " " for character in folded
    )
    result = []
    for word in spaced.split():
        for part in re.findall(f"{UNSPACED.pattern}|[^ぁ-ヿ一-鿿\u0e00-\u0e7f]+", word):
            pairs = UNSPACED.fullmatch(part) and len(part) > 1
            result += [part[i : i + 2] for i in range(len(part) - 1)] if pairs else [part]
    return result


def reference(query: str, expected: str, retrieved: str, min_tokens: int, boost: bool) -> float:
    if normalise(expected) == normalise(retrieved):
        return 1.0
    ours, theirs = tokens(expected), tokens(retrieved)
    for inner, outer in ((ours, theirs), (theirs, ours)):
        starts = range(len(outer) - len(inner) + 1)
        if inner and any(outer[i : i + len(inner)] == inner for i in starts):
            return 1.0
    return ratio(set(tokens(query)), set(ours), set(theirs), min_tokens, boost)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("...", []),
        ("Hello, World_2", ["hello", "world", "2"]),
        ("Straße ÉTÉ e\u0301te\u0301", ["strasse", "été", "été"]),
        ("\uff26\uff55\uff4c\uff4c ﬁne 10²", ["full", "fine", "10²"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("العَرَبِيَّة", ["العَرَبِيَّة"]),
        ("日本語のPython本", ["日本", "本語", "語の", "python", "本"]),
        ("ｶﾞｽ", ["ガス"]),
        ("한국어 문장", ["한국어", "문장"]),
        ("ภาษาไทย", ["ภา", "าษ", "ษา", "าไ", "ไท", "ทย"]),
        ("co\u00adop zero\u200bwidth", ["coop", "zero", "width"]),
        ("don't", ["don", "t"]),
        ("done ✅👍🏽 it\u2019s 20°", ["done", "✅", "👍", "it", "s", "20"]),
        ("ភ្នំពេញ\u200bជា", extent("ភ្នំពេញជា").split()),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert extent(text).split() == words
    table = UNICODE.tokens([text, "x"])
    every = range(len(table.keys))
    found = [word.decode() for word in table.words(np.array(every))]
    assert found == [*words, "x"]


def test_a_text_is_inside_another_by_whole_words() -> None:
    judge = judge_of("token_overlap", "unicode")
    assert one(judge, "cat", "concatenate") == 0
    assert one(judge, "the cat", "see: THE CAT!") == 1
    assert one(judge, "...", "a ... b") == 0
    assert one(judge, "", " ") == 1
    assert one(judge, "", "a") == 0
    assert one(judge, "東京", "日本の首都は東京です") == 1
    assert one(judge, "Straße", "STRASSE") == 1
    assert one(judge, "привет мир", "Привет, мир!") == 1
    assert one(judge, "один два три", "два три четыре") == pytest.approx(2 / 3)


@given(group_lists, st.integers(1, 3), st.booleans())
def test_agrees_with_the_definition(asked, min_tokens: int, boost: bool) -> None:
    judge = judge_of("token_overlap", "unicode", min_tokens=min_tokens, query_boost=boost)
    columns = judge.score(asked)
    assert columns.flags is None
    assert scores_of(judge, asked) == [
        reference(*context, min_tokens, boost) for context in contexts(asked)
    ]


def test_every_letter_is_part_of_a_token() -> None:
    letters = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isalpha()]
    table = UNICODE.tokens(letters)
    assert table.counts.min() >= 1
