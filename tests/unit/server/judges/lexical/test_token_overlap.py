from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Flag
from judged_server.domain import QueryGroup
from judged_server.judges.lexical.texts import PUBLISHED, Texts
from judged_server.judges.lexical.token_overlap import TokenOverlapKind, longest_phrases

from tests.unit.server.judges.reference import (
    classic,
    contains,
    contexts,
    flag_of,
    group_lists,
    judge_of,
    normal,
    one,
    scores_of,
    tokens,
    weighted,
)

RAG = "rag combines retrieval with generation for better accuracy"
RETRIEVED = "rag is a technique that combines retrieval with generation"


def test_kind() -> None:
    kind = TokenOverlapKind()
    assert (kind.kind, kind.for_embeddings) == ("token_overlap", None)
    found = {
        p.name: (p.min_score, {q.name: (q.default, q.minimum) for q in p.parameters})
        for p in kind.profiles
    }
    boost = {"query_boost": (True, None)}
    assert found == {
        "classic": (0.6, {"min_tokens": (2, 1), **boost}),
        "weighted": (0.6, {"min_tokens": (15, 1), **boost}),
        "unicode": (0.6, {"min_tokens": (2, 1), **boost}),
    }
    assert kind.profiles[0].name == "classic"


def test_identity_names_all_that_can_change_a_score() -> None:
    judge = judge_of("token_overlap", "classic")
    assert judge.identity.signature == (
        "token_overlap|profile:classic|min_tokens:2|query_boost:true|min_score:0.6|v2"
    )
    others = [
        judge_of("token_overlap", "unicode"),
        judge_of("token_overlap", "classic", min_tokens=3),
        judge_of("token_overlap", "classic", query_boost=False),
    ]
    keys = {other.identity.scoring_key for other in (judge, *others)}
    assert len(keys) == 4


@pytest.mark.parametrize("profile", ["classic", "unicode"])
def test_worked_values(profile: str) -> None:
    judge = judge_of("token_overlap", profile)
    assert one(judge, RAG, RETRIEVED) == 5 / 8
    assert one(judge, RAG, RETRIEVED, query="what is RAG?") == pytest.approx(5 / 8 / 0.75)
    other = "retrieval augmented generation improves llm responses"
    assert one(judge, other, RETRIEVED) == pytest.approx(1 / 3)
    assert one(judge, other, RETRIEVED, query="retrieval") + 1e-9 < 0.6
    for text in (RAG, other):
        assert one(judge, text, "vector databases store embeddings") == 0


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
    ],
)
def test_edges_of_classic(expected: str, retrieved: str, score: float) -> None:
    assert one(judge_of("token_overlap", "classic"), expected, retrieved) == score


@given(group_lists, st.integers(1, 3), st.booleans())
def test_classic_agrees_with_the_definition(asked, min_tokens: int, boost: bool) -> None:
    judge = judge_of("token_overlap", "classic", min_tokens=min_tokens, query_boost=boost)
    assert scores_of(judge, asked) == [
        classic(*context, min_tokens, boost) for context in contexts(asked)
    ]


@pytest.mark.parametrize("profile", ["classic", "weighted"])
@given(asked=group_lists)
def test_letters_without_tokens_are_flagged(profile: str, asked) -> None:
    flags = judge_of("token_overlap", profile).score(asked).flags
    expected = [flag_of(e) | flag_of(r) for _, e, r in contexts(asked)]
    assert (flags is not None) == any(expected)
    if flags is not None:
        assert flags.dtype == "uint8"
        assert flags.tolist() == expected


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
    group = QueryGroup("", "", [text], ["an answer in English"])
    for profile in ("classic", "weighted"):
        flags = judge_of("token_overlap", profile).score([group]).flags
        assert (0 if flags is None else flags[0]) == flag
    assert judge_of("token_overlap", "unicode").score([group]).flags is None


def test_the_query_is_not_flagged() -> None:
    group = QueryGroup("", "Что это?", ["an answer"], ["a result"])
    assert judge_of("token_overlap", "classic").score([group]).flags is None


@pytest.mark.parametrize("profile", ["classic", "weighted", "unicode"])
@given(asked=group_lists)
def test_groups_do_not_touch_each_other(profile: str, asked) -> None:
    judge = judge_of("token_overlap", profile, min_tokens=2)
    alone = [score for group in asked for score in scores_of(judge, [group])]
    assert scores_of(judge, asked) == alone


@pytest.mark.parametrize("profile", ["classic", "weighted", "unicode"])
def test_nothing_to_judge(profile: str) -> None:
    judge = judge_of("token_overlap", profile)
    assert scores_of(judge, []) == []
    assert scores_of(judge, [QueryGroup("", "q", [], ["a"]), QueryGroup("", "q", ["a"], [])]) == []


def score(expected: str, retrieved: str, query: str = "", *, min_tokens: int = 1) -> float:
    judge = judge_of("token_overlap", "weighted", min_tokens=min_tokens)
    return one(judge, expected, retrieved, query)


def test_signature() -> None:
    assert judge_of("token_overlap", "weighted").identity.signature == (
        "token_overlap|profile:weighted|min_tokens:15|query_boost:true|min_score:0.6|v2"
    )


@pytest.mark.parametrize(
    ("expected", "retrieved", "score_of"),
    [
        ("1999 cat", "dog 1999", 1.5 / 2.5),
        ("ab cat", "dog ab", 0.75 / 1.75),
        ("elephant cat", "dog elephant", 1.35 / 2.35),
        ("12 cat", "dog 12", 1.5 / 2.5),
        ("12345678 cat", "dog 12345678", 1.5 / 2.5),
        ("a1234567 cat", "dog a1234567", 1.35 / 2.35),
        ("1234567890 cat", "dog 1234567890", 1.5 / 2.5),
        ("123456789x cat", "dog 123456789x", 1.35 / 2.35),
    ],
)
def test_weights(expected: str, retrieved: str, score_of: float) -> None:
    assert score(expected, retrieved) == pytest.approx(score_of, abs=1e-12)


def test_phrases_are_of_content_tokens_in_the_retrieved_text_as_it_stands() -> None:
    # The first text always has four words of weight 1, of which the second shares two.
    assert score("red fox bird tree", "fox, red dog") == pytest.approx(0.5)
    assert score("red fox bird tree", "the red fox ran") == pytest.approx(0.55)
    assert score("red of the fox bird tree", "the red fox ran") == pytest.approx(0.55)
    assert score("red fox bird tree", "the red of fox ran") == pytest.approx(0.5)
    assert score("red fox bird tree", "bored foxes, red, fox") == pytest.approx(0.55)
    assert score("red fox bird tree", "the red fox bird") == pytest.approx(0.85)
    assert score("red fox red dog tree", "a red fox red dog") == pytest.approx(0.9)


def test_the_query_helps_with_content_tokens_alone() -> None:
    assert score("red fox bird tree", "fox, red dog", "which fox") == pytest.approx(0.6)
    assert score("red fox bird tree", "fox, red dog", "the bird") == pytest.approx(0.5)
    assert score("the red fox tree", "fox, red, the dog", "the") == pytest.approx(2 / 3)


def test_a_negation_on_one_side_alone_is_a_mismatch() -> None:
    assert score("the door is open", "the door is not open") == 0
    assert score("never open it", "not open it") > 0
    assert score("is open", "surely it is open, no?") == 0
    assert score("none", "none") == 1
    assert score("cannot open the red door", "can not open the red door now") > 0


def test_few_shared_tokens_score_nothing() -> None:
    words = " ".join(f"word{i}" for i in range(15))
    assert score(f"{words} one", f"two {words}", min_tokens=15) > 0.9
    assert score(f"{words} one", f"two {words}", min_tokens=16) == 0


def test_the_score_is_at_most_one() -> None:
    assert score("red fox bird tree", "tree, red fox bird tree.", "fox") == 1
    assert score("red fox bird tree!", "tree, red fox bird tree.", "fox") == 1


@given(group_lists, st.integers(1, 4), st.booleans())
def test_agrees_with_the_definition(asked, min_tokens: int, boost: bool) -> None:
    judge = judge_of("token_overlap", "weighted", min_tokens=min_tokens, query_boost=boost)
    reference = [weighted(*context, min_tokens, boost) for context in contexts(asked)]
    assert scores_of(judge, asked) == pytest.approx(reference, abs=1e-12)


@pytest.mark.parametrize(
    ("expected", "retrieved", "length"),
    [
        ("one two three four five", "one two three four five", 4),
        ("one two three four", "ONE\n two  three\u00a0four!", 4),
        ("one two three four", "one two three, four", 3),
        ("one two three four", "three four one two", 2),
        ("one two three four", "four three two one", 0),
        ("one two one two", "one two one", 3),
        ("one two", "someone twofold", 2),
        ("a b", "xa by", 2),
        ("one, two", "one two", 2),
        ("one two", "one, two", 0),
        ("one", "one", 0),
        ("", "one two", 0),
    ],
)
def test_longest_phrase(expected: str, retrieved: str, length: int) -> None:
    texts = Texts([QueryGroup("", "", [expected, "other text"], [retrieved])], PUBLISHED)
    (batch,) = texts._batches()
    content = np.ones(len(batch.term_tokens))
    asked = np.array([True, False])
    assert longest_phrases(texts, batch, content, asked).tolist() == [length, 0]
    assert longest_phrases(texts, batch, content, ~asked & False).tolist() == [0, 0]


@given(group_lists)
def test_sums_over_shared_tokens(asked) -> None:
    texts = Texts(asked, PUBLISHED)
    sets = [tuple(set(tokens(text)) for text in context) for context in contexts(asked)]
    same = [
        normal(expected) == normal(retrieved) or contains(normal(expected), normal(retrieved))
        for _, expected, retrieved in contexts(asked)
    ]
    seen = []
    for batch in texts._batches():
        seen += batch.target.tolist()
        lengths = texts.tokens.lengths[batch.term_tokens].astype(float)
        shared, of_query = batch.shared(), batch.shared(batch.in_query)
        letters, expected = batch.shared(lengths), batch.in_expected(lengths)
        for place, context in enumerate(batch.target.tolist()):
            q, e, r = sets[context]
            assert shared[place] == len(e & r)
            assert of_query[place] == len(q & e & r)
            assert letters[place] == sum(map(len, e & r))
            assert expected[batch.expected_of[place]] == sum(map(len, e))
            assert batch.may_contain[place] or not same[context]
        everything = np.ones(len(batch.target), np.bool_)
        for place, expected_text, retrieved_text in batch.pairs(everything):
            pair = contexts(asked)[batch.target[place]][1:]
            assert (texts.texts[expected_text], texts.texts[retrieved_text]) == pair
    assert sorted(seen) == list(range(len(sets)))
