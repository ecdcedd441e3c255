from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.server.judges.reference import (
    contexts,
    group_lists,
    judge_of,
    one,
    scores_of,
    weighted,
)


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
