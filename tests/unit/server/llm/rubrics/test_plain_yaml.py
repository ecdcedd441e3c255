"""What of YAML a rubric may use, and that nothing else gets through or takes long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.rubrics.loading import parse
from judged_server.llm.rubrics.plain_yaml import read_yaml
from judged_server.settings import SettingsError

GOOD = """
id: same_claim
version: 2
description: "Claims: does the passage make this one?"
fails_closed: "no"
system: |
  Judge.

  {{answer}}
user: |
  {{nonce}} {{expected_text}} and {{retrieved_text}}
structured_answer: 'An object with "reasoning" and "verdict".'
plain_answer: YES or NO
"""
LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]\n" for n in range(24)
)


def test_a_block_is_a_text_with_its_line_ends():
    rubric = parse(GOOD.encode(), "f.yaml", yaml=True)
    assert rubric.user == "{{nonce}} {{expected_text}} and {{retrieved_text}}\n"
    assert rubric.system == "Judge.\n\n{{answer}}\n"
    assert parse(GOOD.replace("\n", "\r\n").encode(), "f.yaml", yaml=True) == rubric


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"no"', "no", "yes or no; put it in quotes, for without them it is read as true or false"),
        ('"no"', "2026-01-01", "put it in quotes, for without them it is read as a date"),
        ("version: 2", 'version: "2"', "version must be a whole number from 1 to 1000000, without"),
        ("version: 2", "version: 2\nversion: 3", "version is there for the second time; keep one"),
        ("version: 2", "version: 2\nmin_score:", "min_score has no value; give it one, or leave "),
        ("version: 2", "version: 2\na b: c\na b: d", "a key is there for the second"),
        ("version: 2", "version: 2\n1: 3", "a key must be a text (at line 4, column 1)"),
        ("version: 2", "version: 2\n<<: {a: b}", "a key must be a text"),
        ("version: 2", "version: 2\n? [a]\n: 3", "a text with braces must stand in quotes"),
        ("version: 2", "version: 2020-13-45", "a number or a date in it is none"),
        ("version: 2", "version: " + "9" * 5000, "a number or a date in it is none"),
        ("version: 2", "version: 1" + ":1" * 9999 + ".5", "a number or a date in it is none"),
        ("version: 2", "version: !!int 2", "tags (!) are not for rubrics"),
        ("version: 2", "version: !!python/object/apply:os.getcwd []", "tags (!) are not for rubri"),
        ("version: 2", "version: !!bool x", "tags (!) are not for rubrics"),
        ("version: 2", "version: &a 2", "anchors (&) and aliases (*) are not for rubrics"),
        ("plain_answer: YES", "plain_answer: *YES", "anchors (&) and aliases (*) are not for rubr"),
        ("plain_answer: YES or NO", "plain_answer: {{nonce}} YES", "below | (at line 13, column "),
        ("version: 2", "version: 2\nscoerd: true", "scoerd is not known; did you mean scored?"),
        ("version: 2", "version: 2\n---\na: b", "but found another document (at line 4"),
        ("version: 2", "version: 2: 3", "mapping values are not allowed here (at line 3"),
        ("version: 2", "version: [", "(at line 5"),
        ("version: 2", "version: " + "[" * 100_000, "it nests too deep"),
        ("version: 2", "version: \x00", "unacceptable character #x0000"),
        ("description: ", "description: >\n  ", "description must be one line of text"),
    ],
)  # fmt: skip
def test_what_is_refused(old: str, new: str, message: str):
    assert old in GOOD
    with pytest.raises(SettingsError) as caught:
        parse(GOOD.replace(old, new, 1).encode(), "mine.yaml", yaml=True)
    assert str(caught.value).startswith("mine.yaml")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("raw", [b"", b"- a", b"text", b"# nothing", b"---\n...", b"~"])
def test_what_is_no_table_is_no_rubric(raw: bytes):
    with pytest.raises(SettingsError, match=r"^f\.yaml must be a table"):
        parse(raw, "f.yaml", yaml=True)


def test_a_billion_laughs_are_not_laughed():
    with pytest.raises(SettingsError, match="anchors"):
        parse((GOOD + LAUGHS).encode(), "f", yaml=True)


def test_what_is_not_utf_8_is_refused():
    with pytest.raises(SettingsError, match="f: the file is not UTF-8; save it as that"):
        read_yaml(GOOD.encode("utf-16"), "f")


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=60).map(lambda t: (GOOD + t).encode()),
        st.text("[]{}:,-?!&*|>'\"%@`# \n\tab1.~=<_", max_size=40).map(str.encode),
        st.tuples(st.integers(0, len(GOOD)), st.text(max_size=9)).map(
            lambda part: (GOOD[: part[0]] + part[1] + GOOD[part[0] :]).encode()
        ),
    )
)
def test_any_bytes_are_a_rubric_or_a_bad_setting(raw: bytes):
    try:
        told = f"file {parse(raw, 'file', yaml=True).id}"
    except SettingsError as error:
        told = str(error)
    assert told.startswith("file")
