"""Results that a retriever returned twice."""

import pytest
from judged_server.errors import InvalidField
from judged_server.metrics.input.rankings import distinct_results


def test_nothing_repeats():
    assert distinct_results(["a", "b"], ["x", "x"], field="ids", strict=True) is None
    assert distinct_results([], [], field="ids", strict=True) is None


def test_the_first_of_an_id_with_its_text_is_kept():
    ids, texts = ["a", "b", "a", "a", "b"], ["x", "x", "x", "y", "x"]
    assert distinct_results(ids, texts, field="ids", strict=False) == [0, 1, 3]


def test_the_id_decides_where_there_are_no_texts():
    assert distinct_results(["a", "b", "a"], None, field="ids", strict=False) == [0, 1]


def test_strict_names_the_repeat():
    with pytest.raises(InvalidField) as caught:
        distinct_results(["a", "b", "a"], None, field="groups[4].document_ids", strict=True)
    assert caught.value.field == "groups[4].document_ids[2]"
    assert "entry 0" in caught.value.rule


def test_columns_of_different_lengths_are_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="shorter"):
        distinct_results(["a", "b"], ["x"], field="ids", strict=False)
