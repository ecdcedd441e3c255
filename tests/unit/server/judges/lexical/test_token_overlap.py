from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Flag
from judged_server.domain import QueryGroup
from judged_server.judges.lexical.token_overlap import TokenOverlapKind

from tests.unit.server.judges.reference import (
    classic,
    contexts,
    flag_of,
    group_lists,
    judge_of,
    one,
    scores_of,
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
