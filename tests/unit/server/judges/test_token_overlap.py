from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Flag
from judged_server.domain import Group, plain_form
from judged_server.judges.lexical import (
    NEGATIONS,
    STOPWORDS,
    UnicodeWords,
    Words,
    normalise,
)

from tests.unit.server.judges import reference
from tests.unit.server.judges.reference import (
    classic,
    contexts,
    flag_of,
    group_lists,
    judge_of,
    one,
    ratio,
    scores_of,
    weighted,
)

RAG = "rag combines retrieval with generation for better accuracy"
RETRIEVED = "rag is a technique that combines retrieval with generation"
PROFILES = pytest.mark.parametrize("profile", ["classic", "weighted", "unicode"])


def test_identity_names_all_that_can_change_a_score() -> None:
    signatures = [
        judge_of("token_overlap", profile).identity.signature
        for profile in ("classic", "weighted", "unicode")
    ]
    rest = "query_boost:true|min_score:0.6|v2"
    assert signatures == [
        f"token_overlap|profile:classic|min_tokens:2|{rest}",
        f"token_overlap|profile:weighted|min_tokens:15|{rest}",
        f"token_overlap|profile:unicode|min_tokens:2|{rest}",
    ]
    judges = [
        judge_of("token_overlap", "classic"),
        judge_of("token_overlap", "unicode"),
        judge_of("token_overlap", "classic", min_tokens=3),
        judge_of("token_overlap", "classic", query_boost=False),
    ]
    assert len({judge.identity.scoring_key for judge in judges}) == 4


def test_the_lists_are_whole() -> None:
    assert len(STOPWORDS) == 179
    assert {"a", "you're", "yourselves", "mightn", "nor", "not", "no"} <= STOPWORDS
    assert {b"cannot", b"never", b"no", b"none", b"not", b"without"} == NEGATIONS


def _read(text: str, reader: type[Words] = Words) -> list[str]:
    return [word.decode() for word in reader(text).in_order]


@given(st.one_of(reference.texts, st.text()))
def test_texts_are_read_as_defined(text: str) -> None:
    assert normalise(text) == reference.normal(plain_form(text))
    expected = re.findall("[a-z0-9]+", plain_form(text).lower())
    assert _read(text) == expected


def test_every_white_space_is_run_together() -> None:
    spaces = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    assert len(spaces) > 20
    for space in spaces:
        assert normalise(f"{space}A{space}B ") == "a b"


def test_every_character_is_read_as_defined() -> None:
    for start in range(0x80, sys.maxunicode, 4096):
        characters = list(map(chr, range(start, min(start + 4096, sys.maxunicode + 1))))
        text = " ".join(characters)
        assert _read(text) == re.findall("[a-z0-9]+", plain_form(text).lower()), hex(start)
        letters = [character for character in characters if character.isalpha()]
        assert len(_read(" ".join(letters), UnicodeWords)) >= len(letters), hex(start)


@pytest.mark.parametrize("profile", ["classic", "unicode"])
def test_worked_values(profile: str) -> None:
    judge = judge_of("token_overlap", profile)
    assert one(judge, RAG, RETRIEVED) == 5 / 8
    assert one(judge, RAG, RETRIEVED, query="what is RAG?") == pytest.approx(5 / 8 / 0.75)
    other = "retrieval augmented generation improves llm responses"
    assert one(judge, other, RETRIEVED) == pytest.approx(1 / 3)
    assert one(judge, other, RETRIEVED, query="retrieval") + 1e-9 < 0.6
    assert one(judge, other, "vector databases store embeddings") == 0


@pytest.mark.parametrize(
    ("expected", "retrieved", "score"),
    [
        ("", "", 1),
        ("", "a b c", 0),
        ("a b c", " ", 0),
        ("...", "!!!", 0),
        ("...", "a ... b", 1),
        ("cat", "concatenate", 1),
        ("Paris  is", "in\nPARIS\u00a0IS it", 1),
        ("kelvin one two", "\u212aelvin one three", 2 / 3),
        ("\u0130stanbul one", "istanbul two", 0),
        ("a b c d", "a x y z", 0),
        ("one\ud800two three", "two one four", 2 / 3),
    ],
)
def test_edges_of_classic(expected: str, retrieved: str, score: float) -> None:
    assert one(judge_of("token_overlap", "classic"), expected, retrieved) == score


@PROFILES
@given(asked=group_lists, min_tokens=st.integers(1, 3), boost=st.booleans())
def test_scores_and_flags_agree_with_the_definition(
    profile: str, asked: list[Group], min_tokens: int, boost: bool
) -> None:
    judge = judge_of("token_overlap", profile, min_tokens=min_tokens, query_boost=boost)
    define = {"classic": classic, "weighted": weighted, "unicode": any_language}[profile]
    found = scores_of(judge, asked)
    expected = [define(*context, min_tokens, boost) for context in contexts(asked)]
    assert found == (pytest.approx(expected, abs=1e-12) if profile == "weighted" else expected)
    assert found == [score for group in asked for score in scores_of(judge, [group])]
    flags = judge.score(asked).flags
    of_texts = [
        0 if profile == "unicode" else flag_of(e) | flag_of(r) for _, e, r in contexts(asked)
    ]
    assert (None if flags is None else flags.tolist()) == (of_texts if any(of_texts) else None)


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        ("Deploy status: ✅", Flag.UNKNOWN_TOKENS),
        ("👍", Flag.NO_TOKENS),
        ("iPhone 15 の価格は999ドル", Flag.UNKNOWN_TOKENS),
        ("Berlin Берлин", Flag.UNKNOWN_TOKENS),
        ("\uff21\uff22\u3000\uff11", Flag.NONE),
        ("Le café près de l'hôtel est fermé à Noël", Flag.NONE),
        ("Die Größe", Flag.NONE),
        ("Praha je hlavní město České republiky", Flag.NONE),
        ("Thanks for the quick reply, it works now 👍", Flag.NONE),
    ],
)
def test_texts_that_are_read_in_part_are_flagged(text: str, flag: Flag) -> None:
    group = Group("", "Что это?", [text], ["an answer in English"])
    for profile in ("classic", "weighted"):
        flags = judge_of("token_overlap", profile).score([group]).flags
        assert (0 if flags is None else flags[0]) == flag
    assert judge_of("token_overlap", "unicode").score([group]).flags is None


@pytest.mark.parametrize(
    ("expected", "retrieved", "query", "score"),
    [
        # Weights of words.
        ("1999 cat", "dog 1999", "", 1.5 / 2.5),
        ("ab cat", "dog ab", "", 0.75 / 1.75),
        ("elephant cat", "dog elephant", "", 1.35 / 2.35),
        ("12 cat", "dog 12", "", 1.5 / 2.5),
        ("a1234567 cat", "dog a1234567", "", 1.35 / 2.35),
        ("1234567890 cat", "dog 1234567890", "", 1.5 / 2.5),
        ("123456789x cat", "dog 123456789x", "", 1.35 / 2.35),
        # Phrases are of content words, in the retrieved text as it stands.
        ("red fox bird tree", "fox, red dog", "", 0.5),
        ("red fox bird tree", "the red fox ran", "", 0.55),
        ("red of the fox bird tree", "the red fox ran", "", 0.55),
        ("red fox bird tree", "the red of fox ran", "", 0.5),
        ("red fox bird tree", "bored foxes, red, fox", "", 0.55),
        ("red fox bird tree", "the red fox bird", "", 0.85),
        ("red fox red dog tree", "a red fox red dog", "", 0.9),
        ("one two three four", "three four one two", "", 1),
        ("one two three four six", "four three two one", "", 0.8),
        ("one two three four six", "three four, one two", "", 0.85),
        ("red fox bird tree", "tree, red fox bird tree.", "fox", 1),
        ("red fox bird tree!", "tree, red fox bird tree.", "fox", 1),
        # The query helps with content words alone.
        ("red fox bird tree", "fox, red dog", "which fox", 0.6),
        ("red fox bird tree", "fox, red dog", "the bird", 0.5),
        ("the red fox tree", "fox, red, the dog", "the", 2 / 3),
        # A negation on one side alone is a mismatch.
        ("the door is open", "the door is not open", "", 0),
        ("never open it", "not open it", "", 0.5),
        ("is open", "surely it is open, no?", "", 0),
        ("none", "none", "", 1),
    ],
)
def test_worked_values_of_weighted(expected: str, retrieved: str, query: str, score: float) -> None:
    judge = judge_of("token_overlap", "weighted", min_tokens=1)
    assert one(judge, expected, retrieved, query) == pytest.approx(score, abs=1e-12)


UNSPACED = re.compile("[ぁ-ヿ一-鿿\u0e00-\u0e7f]+")


def words_of(text: str) -> list[str]:
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


def any_language(query: str, expected: str, retrieved: str, min_tokens: int, boost: bool) -> float:
    if normalise(expected) == normalise(retrieved):
        return 1.0
    ours, theirs = words_of(expected), words_of(retrieved)
    for inner, outer in ((ours, theirs), (theirs, ours)):
        starts = range(len(outer) - len(inner) + 1)
        if inner and any(outer[i : i + len(inner)] == inner for i in starts):
            return 1.0
    return ratio(set(words_of(query)), set(ours), set(theirs), min_tokens, boost)


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
        ("ភ្នំពេញ\u200bជា", _read("ភ្នំពេញជា", UnicodeWords)),
    ],
)
def test_words_of_any_language(text: str, words: list[str]) -> None:
    assert _read(text, UnicodeWords) == words


@pytest.mark.parametrize(
    ("expected", "retrieved", "score"),
    [
        ("cat", "concatenate", 0),
        ("the cat", "see: THE CAT!", 1),
        ("...", "a ... b", 0),
        ("", " ", 1),
        ("", "a", 0),
        ("東京", "日本の首都は東京です", 1),
        ("Straße", "STRASSE", 1),
        ("привет мир", "Привет, мир!", 1),
        ("один два три", "два три четыре", 2 / 3),
    ],
)
def test_a_text_is_inside_another_by_whole_words(
    expected: str, retrieved: str, score: float
) -> None:
    assert one(judge_of("token_overlap", "unicode"), expected, retrieved) == pytest.approx(score)
