from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.judges.equivalence.words import Reading, read_word, words_of


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


@pytest.mark.parametrize("one", ["1995", "19951", "i", "ministers", "x2"])
def test_others_do_not(one: str) -> None:
    assert read_word(one).stem != read_word("1996").stem


@given(st.lists(st.text(max_size=60), max_size=6))
def test_a_reading_has_the_words_of_each_text(texts: list[str]) -> None:
    reading = Reading.of(texts)
    assert len(reading.first) == len(texts) + 1
    for number, text in enumerate(texts):
        stems = [read_word(word).stem for word in words_of(text)]
        part = reading.words[reading.first[number] : reading.first[number + 1]]
        names = {place: stem for stem, place in reading.stem_numbers.items()}
        assert [names[place] for place in reading.facts["stem"][part].tolist()] == stems
    assert len(np.unique(reading.words)) == len(reading.facts["stop"])
