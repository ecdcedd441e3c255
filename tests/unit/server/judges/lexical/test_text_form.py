from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from judged_server.domain.text_form import plain_form
from judged_server.judges.lexical.texts import PUBLISHED, normalise

from tests.unit.server.judges import reference


@given(st.one_of(reference.texts, st.text()))
def test_normalise_as_defined(text: str) -> None:
    assert normalise(text) == reference.normal(plain_form(text))


def test_every_white_space_is_run_together() -> None:
    spaces = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    assert len(spaces) > 20
    for space in spaces:
        assert normalise(f"A{space}B") == "a b"
        assert normalise(f"{space}A ") == "a"


def test_tokens_are_the_ascii_letters_of_the_lowered_plain_form() -> None:
    characters = [chr(code) for code in range(0x80, 0x110000)]
    counts = PUBLISHED.tokens(characters).counts.tolist()
    for character, count in zip(characters, counts, strict=True):
        found = re.findall("[a-z0-9]+", plain_form(character).lower())
        assert count == len(found), hex(ord(character))
