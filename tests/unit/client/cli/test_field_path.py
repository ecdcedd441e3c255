"""Paths of fields as errors name them, read and written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.cli.field_path import Key, read_path, replace_paths, write_path

NAMES = st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True)
KEYS = st.text(st.characters(exclude_characters='"]\n', exclude_categories=["Cs", "Cc"]))


@given(NAMES, st.lists(NAMES | st.integers(0, 10**6) | KEYS.map(Key)))
def test_what_is_written_is_read_again(first, more):
    steps = (first, *more)
    if first != "start":
        assert read_path(write_path(steps)) == steps


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("groups[3].retrieved[12]", ("groups", 3, "retrieved", 12)),
        ('judge.parameters["a.b[1]"]', ("judge", "parameters", Key("a.b[1]"))),
        ("start.judge.kind", ("judge", "kind")),
        ("start", ("start",)),
    ],
)
def test_names_places_and_keys_are_told_apart(text, steps):
    assert read_path(text) == steps


@pytest.mark.parametrize("text", ["", "a b", "a..b", "a[", "a[x]", "a.", 'a["x'])
def test_what_is_no_path_has_no_steps(text):
    assert read_path(text) == ()


def test_a_sentence_keeps_the_paths_that_nobody_knows():
    known = {("metrics", 0): "--metric ap"}
    said = replace_paths("is ap again, as in metrics[0] and rows[2]", known.get)
    assert said == "is ap again, as in --metric ap and rows[2]"
