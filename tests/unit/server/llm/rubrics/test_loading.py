"""Rubric files: what is refused, with the file and the key in the message."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.rubrics import load_builtin, load_folder
from judged_server.llm.rubrics.loading import MAX_FILE_BYTES, parse
from judged_server.settings import SettingsError

GOOD = """
id = "same_claim"
version = 2
description = "Does the passage make the claim?"
min_score = 0.7
fails_closed = "no"
scored = true
system = "Judge. {{answer}}"
user = "{{nonce}} {{expected_text}} and {{retrieved_text}}"
structured_answer = 'An object with "reasoning", "verdict" and "score".'
plain_answer = "YES or NO"
"""


def test_a_good_file_is_read(tmp_path: Path):
    (tmp_path / "b.toml").write_text(GOOD)
    (tmp_path / "a.toml").write_text(
        GOOD.replace("same_claim", "other").replace("true", "false").replace(' and "score"', "")
    )
    (tmp_path / "notes.md").write_text("no rubric")
    rubrics = load_folder(tmp_path)
    assert list(rubrics) == ["other", "same_claim"]
    rubric = rubrics["same_claim"]
    assert (rubric.version, rubric.min_score, rubric.scored) == (2, 0.7, True)
    assert rubric.fields == ("expected_text", "retrieved_text")
    assert not rubrics["other"].scored


def test_the_example_in_the_docs_is_a_rubric():
    page = (Path(__file__).parents[5] / "docs" / "rubrics.md").read_text()
    rubric = parse(page.split("```toml\n")[1].split("```")[0].encode(), "docs")
    assert (rubric.id, rubric.scored, rubric.fails_closed) == ("same_claim", True, "no")


def test_layout_and_comments_do_not_change_the_hash():
    other = "# a comment\n" + "\n".join(sorted(GOOD.strip().splitlines()))
    assert parse(GOOD.encode(), "a").sha256 == parse(other.encode(), "b").sha256


BAD = [
    ('id = "same_claim"', "", "id must be a name"),
    ('"same_claim"', '"Same Claim"', "id must be a name"),
    ("version = 2", "", "version must be a whole number"),
    ("version = 2", 'version = "2"', "version must be a whole number"),
    ("version = 2", "version = 0", "version must be a whole number"),
    ("version = 2", "version = true", "version must be a whole number"),
    ("min_score = 0.7", "min_score = 1.5", "min_score must be a number"),
    ("min_score = 0.7", "min_score = nan", "min_score must be a number"),
    ('description = "Does the passage make the claim?"', "", "description must be one line"),
    ('fails_closed = "no"', "", "fails_closed must be yes or no"),
    ('fails_closed = "no"', "fails_closed = false", "fails_closed must be yes or no"),
    ("scored = true", 'scored = "true"', "scored must be true or false"),
    ("scored = true", "", 'structured_answer must not ask for "score"'),
    ("scored = true", "scored = true\nsamples = 3", "samples is not known"),
    ("{{answer}}", "", "system must hold {{answer}} once"),
    ("{{answer}}", "{{answer}} {{answer}}", "system must hold {{answer}} once"),
    ("{{answer}}", "{{answer}} {{query}}", "system must hold {{answer}} once"),
    ("{{answer}}", "{{answer}} }}", "double braces that are not around a name"),
    ("{{nonce}}", "", "user must hold {{nonce}}"),
    ("{{nonce}}", "{{nonce}} {{answer}}", "user must show one or more"),
    ("{{nonce}}", "{{nonce}} {{ query }}", "user must show one or more"),
    ("{{nonce}}", "{{nonce}} {{passage}}", "user must show one or more"),
    ("{{expected_text}} and {{retrieved_text}}", "", "user must show one or more"),
    ("{{expected_text}}", "{{retrieved_text}}", "user must show each text once"),
    ("{{nonce}}", "{{nonce}} {{", "double braces that are not around a name"),
    ('user = "{{nonce}} {{expected_text}} and {{retrieved_text}}"', 'user = " "', "user must be"),
    ('"verdict"', "verdict", 'structured_answer must name the key "verdict"'),
    ('"score"', "score", 'structured_answer must name the key "score"'),
    ('"YES or NO"', '"yes or no"', "plain_answer must ask for YES or NO"),
    ('"YES or NO"', '"YES or NO {{answer}}"', "plain_answer can't hold double braces"),
    ("version = 2", "version = ", "is not TOML"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), BAD, ids=lambda part: str(part)[:30])
def test_a_bad_file_is_refused_by_file_and_key(tmp_path: Path, old: str, new: str, message: str):
    assert old in GOOD
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(SettingsError) as caught:
        load_folder(tmp_path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_a_folder_must_be_there_and_hold_something(tmp_path: Path):
    with pytest.raises(SettingsError, match=r"rubrics_dir .* can't be read"):
        load_folder(tmp_path / "none")
    with pytest.raises(SettingsError, match=r"has no \*.toml file"):
        load_folder(tmp_path)


def test_ids_are_unique(tmp_path: Path):
    (tmp_path / "a.toml").write_text(GOOD)
    (tmp_path / "b.toml").write_text(GOOD)
    with pytest.raises(SettingsError, match=r"b\.toml: id is that of a\.toml too"):
        load_folder(tmp_path)


def test_the_id_of_a_built_in_rubric_is_taken(tmp_path: Path):
    (tmp_path / "a.toml").write_text(GOOD.replace("same_claim", "retrieval_match"))
    with pytest.raises(SettingsError, match="built-in rubric"):
        load_folder(tmp_path)


def test_files_that_are_no_files_or_too_large_are_refused(tmp_path: Path):
    (tmp_path / "a.toml").mkdir()
    with pytest.raises(SettingsError, match="can't be read"):
        load_folder(tmp_path)
    (tmp_path / "a.toml").rmdir()
    (tmp_path / "a.toml").write_text("#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(SettingsError, match="larger than"):
        load_folder(tmp_path)


@given(
    st.one_of(
        st.binary(max_size=200),
        st.text(max_size=60).map(lambda t: (GOOD + t).encode()),
        st.integers(0, len(GOOD)).map(lambda n: GOOD[:n].encode()),
    )
)
def test_any_bytes_are_a_rubric_or_a_bad_setting(raw: bytes):
    try:
        rubric = parse(raw, "file")
    except SettingsError as error:
        told = str(error)
    else:
        told = f"file {rubric.fails_closed}"
    assert told.startswith("file")


def test_deep_nesting_is_a_bad_setting():
    with pytest.raises(SettingsError, match="is not TOML"):
        parse(b"a = " + b"[" * 100_000, "f")


def test_the_built_in_rubrics_can_not_be_changed():
    with pytest.raises(TypeError):
        load_builtin()["retrieval_match"] = None
