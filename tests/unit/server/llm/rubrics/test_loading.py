"""Rubric files: what is refused, with the file and the key in the message."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from judged_server.llm.rubrics.rubric import MAX_FILE_BYTES, load_folder, parse
from judged_server.settings import SettingsError

CASES = tomllib.loads((Path(__file__).parents[4] / "data" / "refused_rubrics.toml").read_text())
GOOD = CASES["good"]["verdict"]


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


def test_the_examples_in_the_docs_are_rubrics_of_every_form():
    page = (Path(__file__).parents[5] / "docs" / "rubrics.md").read_text()
    examples = [part.split("```")[0] for part in page.split("```toml\n")[1:]]
    rubrics = [parse(example.encode(), "docs") for example in examples]
    assert [(rubric.id, rubric.form) for rubric in rubrics] == [
        ("same_claim", "verdict"),
        ("politeness", "score"),
        ("newness", "grade"),
        ("release_note", "dimensions"),
        ("promises_kept", "claims"),
    ]
    assert rubrics[0].scored
    assert rubrics[0].judges_contexts
    assert all(rubric.scores_answers for rubric in rubrics[1:])
    assert rubrics[2].grades == ("stale", "dated", "current")
    assert rubrics[3].dimensions == (("clarity", 1.0), ("coverage", 2.0))


def test_each_form_is_read():
    score, style, promises = (
        parse(CASES["good"][form].encode(), "f") for form in ("score", "dimensions", "claims")
    )
    assert (score.form, score.min_score, score.fields) == ("score", 0.7, ("answer",))
    assert style.dimensions == (("tone", 2.0), ("sources", 1.0))
    assert style.need_contexts == ("sources",)
    assert [step.id for step in promises.steps] == ["promises_extraction", "promises_verification"]
    assert promises.fields == ("answer", "contexts")


@pytest.mark.parametrize("case", CASES["refused"], ids=lambda case: case["says"][:30])
def test_a_bad_file_is_refused_by_file_and_key(tmp_path: Path, case: dict[str, str]):
    good, path = CASES["good"][case["of"]], tmp_path / "mine.toml"
    assert case["old"] in good
    path.write_text(good.replace(case["old"], case["new"], 1))
    with pytest.raises(SettingsError) as caught:
        load_folder(tmp_path)
    assert str(caught.value).startswith(str(path))
    assert case["says"] in str(caught.value)


def test_files_that_are_no_files_or_too_large_are_refused(tmp_path: Path):
    (tmp_path / "a.toml").mkdir()
    with pytest.raises(SettingsError, match="can't be read"):
        load_folder(tmp_path)
    (tmp_path / "a.toml").rmdir()
    (tmp_path / "a.toml").write_text("#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(SettingsError, match="larger than"):
        load_folder(tmp_path)
