from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from judged_server.judges.lexical.tokens import PUBLISHED, normalise

from tests.unit.server.judges import reference


@given(st.one_of(reference.texts, st.text()))
def test_normalise_as_defined(text: str) -> None:
    assert normalise(text) == reference.normal(text)


def test_every_white_space_is_run_together() -> None:
    spaces = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    assert len(spaces) > 20
    for space in spaces:
        assert normalise(f"A{space}B") == "a b"
        assert normalise(f"{space}A ") == "a"


def test_only_two_characters_beyond_ascii_lower_to_letters_of_tokens() -> None:
    counts = PUBLISHED.tokens([chr(code) for code in range(0x80, 0x110000)]).counts
    found = [chr(code) for code in range(0x80, 0x110000) if counts[code - 0x80]]
    assert found == ["\u0130", "\u212a"]
