from __future__ import annotations

import pytest
from judged_server.judges.equivalence.words import read_word, words_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("March 18 , 1995", ["March", "18", "1995"]),
        ("1,000 men", ["1000", "men"]),
        ("Spain, 1,2", ["Spain", "1", "2"]),
        ("U.S. troops", ["US", "troops"]),
        ("the dog's bone isn't here", ["the", "dog", "bone", "is", "not", "here"]),
        (
            "played in126 games until 19631.",
            ["played", "in", "126", "games", "until", "19631", "1963"],
        ),
        ("naïve Beyoncé", ["naive", "Beyonce"]),
        ("AT&T", ["AT", "and", "T"]),
        ("", []),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("one", "other"),
    [("two", "2"), ("2nd", "second"), ("II", "2"), ("Jan", "january"), ("running", "run")],
)
def test_forms_of_a_word_share_a_stem(one: str, other: str) -> None:
    assert read_word(one).stem == read_word(other).stem
