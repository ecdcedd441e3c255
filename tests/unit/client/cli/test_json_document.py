"""Documents written item by item have the text that they would have at once."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.cli.output import Items, document_texts

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=8,
)


@given(st.dictionaries(texts, values))
def test_has_the_text_of_json_dumps(document):
    wanted = json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    assert "".join(document_texts(document)) == wanted
    in_items = {
        name: Items(iter(value))
        if isinstance(value, list)
        else Items(iter(value.items()), named=True)
        if isinstance(value, dict)
        else value
        for name, value in document.items()
    }
    assert "".join(document_texts(in_items)) == wanted


def test_items_are_read_as_they_are_written():
    read = []

    def numbers():
        for number in range(3):
            read.append(number)
            yield number

    for text in document_texts({"n": Items(numbers())}):
        if text.strip(" \n[,").isdigit():
            assert int(text.strip(" \n[,")) == read[-1]
    assert read == [0, 1, 2]


def test_refuses_numbers_that_json_lacks():
    with pytest.raises(ValueError, match="JSON"):
        list(document_texts({"a": Items([float("nan")])}))
