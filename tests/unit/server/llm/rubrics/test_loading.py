"""Rubric files: what is refused, with the file and the key in the message."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.rubrics.loading import MAX_FILE_BYTES, load_folder, parse
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


BAD = [
    ('id = "same_claim"', "", "id is missing"),
    ('"same_claim"', '"Same Claim"', "id must be a name"),
    ("version = 2", 'version = "1.0"', "version must be a whole number, without quotes"),
    ("version = 2", "version = " + "1" * 5000, "is not TOML: a number in it has too many digits"),
    ("the claim?", "the claim?\\nWell?", "description must be one line"),
    ('"YES or NO"', "[7]", "plain_answer must be a text, in quotes"),
    ("scored = true", "", 'structured_answer must not ask for "score"'),
    ("{{answer}}", "", "system must hold {{answer}} once"),
    ("{{answer}}", "{{answer}} {{answer}}", "system must hold {{answer}} once"),
    ("{{answer}}", "{{answer}} {{query}}",
     "system holds {{query}}, which is not known here; it may hold {{answer}}"),
    ("{{answer}}", "{answer}", "system holds {answer}, which nothing takes the place of; write {{"),
    ("{{nonce}}", "", "user must hold {{nonce}}"),
    ("{{nonce}}", "{nonce}", "user holds {nonce}, which nothing takes the place of; write {{nonce"),
    ("{{retrieved_text}}", "{retrieved_text}", "user holds {retrieved_text}, which nothing takes "),
    ("{{retrieved_text}}", "{ retrieved_text }", "takes the place of; write {{retrieved_text}}"),
    ("{{retrieved_text}}", "it", "user must show {{retrieved_text}}, the text of a context that"),
    ("{{expected_text}} and {{retrieved_text}}", "{{query}}", "user must show {{retrieved_text}}"),
    ("{{nonce}}", "{{nonce}} {{claim}}", "user holds {{claim}}, which is not known here; it may "),
    ("{{nonce}}", "{{nonce}} {{contexts}}", "user shows texts of a context (expected_text"),
    ("scored = true", 'form = "rank"', "form must be 'verdict', 'score', 'grade', 'dimensions' or"),
    ("scored = true", 'form = "grade"\ngrades = ["a", "A"]', "grades must be different words"),
    ("scored = true", 'form = "grade"\ngrades = ["a", "b c"]', "grades[1] must be a word"),
    ("scored = true", 'form = "grade"\ngrades = ["a", "b"]', 'must ask for "grade"'),
    ("{{nonce}}", "{{nonce}} {{ query }}",
     "user holds {{ query }}, which is not known here; write {{query}}, without spaces"),
    ("{{nonce}}", "{{nonce}} {{passage}}",
     "user holds {{passage}}, which is not known here; it may hold {{nonce}}, {{query}}, {{expec"),
    ("{{nonce}}", "{{nonce}} {{" + "a" * 70 + "}}", "user holds lines in double braces, which"),
    ("{{expected_text}} and {{retrieved_text}}", "", "user must show one or more"),
    ("{{expected_text}}", "{{retrieved_text}}", "user must show each text once"),
    ('"verdict"', "verdict", 'structured_answer must ask for "verdict"'),
    ('"score"', "score", 'structured_answer must ask for "score"'),
    ('"YES or NO"', '"yes or no"', "plain_answer must ask for YES"),
    ("scored = true", 'grades = ["a", "b"]', 'grades is not for form = "verdict"; leave it out'),
    ('"YES or NO"', '"YES or NO {{answer}}"', "plain_answer can't hold double braces"),
]  # fmt: skip


SCORE = """
form = "score"
id = "tone"
version = 1
description = "How polite is the answer?"
fails_closed = "no"
system = "Grade. {{answer}}"
user = "{{nonce}} {{answer}}"
structured_answer = 'An object with "reasoning" and "score".'
plain_answer = "One line, as in Score: 0.4"
"""
DIMENSIONS = """
form = "dimensions"
id = "style"
version = 1
description = "Tone and sources."
fails_closed = "no"
system = "Grade. {{answer}}"
user = "{{nonce}} {{contexts}} {{answer}}"
structured_answer = 'An object with "reasoning", "tone", "sources" and "overall".'
[[dimensions]]
name = "tone"
weight = 2
[[dimensions]]
name = "sources"
needs_contexts = true
"""
CLAIMS = """
form = "claims"
id = "promises"
version = 1
description = "Are the promises borne out?"
fails_closed = "no"
[extraction]
system = "List. {{answer}}"
user = "{{nonce}} {{answer}}"
structured_answer = 'An object with "claims".'
[verification]
system = "Check. {{answer}}"
user = "{{nonce}} {{contexts}} {{claim}}"
structured_answer = '"evidence" and "verdict": SUPPORTED, CONTRADICTED or NOT_ENOUGH_INFO'
"""


def test_each_form_is_read():
    score, style, promises = (parse(text.encode(), "f") for text in (SCORE, DIMENSIONS, CLAIMS))
    assert (score.form, score.min_score, score.fields) == ("score", 0.7, ("answer",))
    assert style.dimensions == (("tone", 2.0), ("sources", 1.0))
    assert style.need_contexts == ("sources",)
    assert [step.id for step in promises.steps] == ["promises_extraction", "promises_verification"]
    assert promises.fields == ("answer", "contexts")


BAD_OF_FORMS = [
    (SCORE, ' and "score"', "", 'structured_answer must ask for "score"'),
    (SCORE, '"reasoning" and', '"reasoning", "verdict" and', 'must not ask for "verdict"'),
    (SCORE, "Score: 0.4", "0.4", "plain_answer must ask for Score:"),
    (SCORE, '"One line, as in Score: 0.4"', '" "', "plain_answer must be a text"),
    (SCORE, "{{nonce}} {{answer}}", "{{nonce}} {{answer}} {{claim}}", "user holds {{claim}}, wh"),
    (DIMENSIONS, '"sources" and', "and", 'structured_answer must ask for "sources"'),
    (DIMENSIONS, ' and "overall"', "", 'structured_answer must ask for "overall"'),
    (DIMENSIONS, 'name = "tone"', 'name = "Tone"', "dimensions[0] (Tone): name must be a name"),
    (DIMENSIONS, 'name = "tone"', 'name = "overall"', "name overall is taken"),
    (DIMENSIONS, 'name = "tone"', 'name = "reasoning"', "name reasoning is taken"),
    (DIMENSIONS, 'name = "tone"', 'name = "sources"', "dimensions: name sources is taken"),
    (DIMENSIONS, "{{contexts}} ", "", "user must show {{contexts}}, which some of the dimensions"),
    (DIMENSIONS, "{{contexts}}", "{{expected_text}}", "user holds {{expected_text}}, which is"),
    (DIMENSIONS, DIMENSIONS[DIMENSIONS.index("[[") :], '[[dimensions]]\nname = "tone"\nweight = 0',
     "dimensions must have a weight above 0"),
    (DIMENSIONS, DIMENSIONS[DIMENSIONS.index("[[") :],
     "".join(f'[[dimensions]]\nname = "d{n}"\n' for n in range(17)), "dimensions must have at"),
    (CLAIMS, "[extraction]", "[extractoin]", "is not known here; did you mean extraction?"),
    (CLAIMS, '"claims".', '"facts".', 'extraction: structured_answer must ask for "claims"'),
    (CLAIMS, "List. {{answer}}", "List.", "extraction: system must hold {{answer}} once"),
    (CLAIMS, "{{contexts}} {{claim}}", "{{contexts}}", "verification: user must show {{claim}}"),
    (CLAIMS, '{{nonce}} {{answer}}"', '{{nonce}} {{claim}}"', "extraction: user holds {{claim}},"),
    (CLAIMS, "NOT_ENOUGH_INFO", "UNKNOWN", "structured_answer must ask for NOT_ENOUGH_INFO"),
]  # fmt: skip


@pytest.mark.parametrize(("good", "old", "new", "message"), BAD_OF_FORMS)
def test_a_bad_file_of_another_form_is_refused(good: str, old: str, new: str, message: str):
    assert old in good
    with pytest.raises(SettingsError) as caught:
        parse(good.replace(old, new, 1).encode(), "mine.toml")
    assert str(caught.value).startswith("mine.toml")
    assert message in str(caught.value)


@pytest.mark.parametrize(("old", "new", "message"), BAD, ids=lambda part: str(part)[:30])
def test_a_bad_file_is_refused_by_file_and_key(tmp_path: Path, old: str, new: str, message: str):
    assert old in GOOD
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(SettingsError) as caught:
        load_folder(tmp_path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


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
        st.tuples(
            st.sampled_from([SCORE, DIMENSIONS, CLAIMS]), st.integers(0, 600), st.text(max_size=9)
        ).map(lambda part: (part[0][: part[1]] + part[2] + part[0][part[1] :]).encode()),
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
