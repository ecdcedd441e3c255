"""What data sets and results say beside texts and ids: spans, negatives, metadata."""

import json

import pytest
from judged import Span, Spans
from judged._files import FileWarning
from judged.evaluation import Dataset, FileError, Query, Results, Retrieved

SPAN = {"file": "a.py", "start": 3, "end": 9}


@pytest.fixture
def dataset(tmp_path):
    def read(**fields):
        path = tmp_path / "dataset.json"
        query = {"query_id": "q1", "query_text": "what", **fields}
        path.write_text(json.dumps({"queries": [query]}), encoding="utf-8")
        return Dataset.from_json(path)

    return read


@pytest.fixture
def results(tmp_path):
    def read(**fields):
        path = tmp_path / "results.jsonl"
        path.write_text(json.dumps({"query_id": "q1", "results": [fields]}), encoding="utf-8")
        return Results.from_jsonl(path)

    return read


def test_reads_spans_negatives_and_metadata(dataset):
    metadata = {"topic": "keys", "hops": 2, "hard": True, "none": None, "tags": ["a"], "x": {}}
    with pytest.warns(FileWarning, match="lists and objects in metadata are left out"):
        read = dataset(
            expected_spans=[SPAN, SPAN, {**SPAN, "end": 10}],
            negative_answers=["old", " ", "old"],
            metadata=metadata,
        )
    assert read.queries == [
        Query(
            "q1",
            "what",
            [],
            [],
            (Span("a.py", 3, 9), Span("a.py", 3, 10)),
            ["old"],
            {"topic": "keys", "hops": "2", "hard": "true"},
        )
    ]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"expected_spans": [{**SPAN, "end": 3}]}, "not above 'start' 3"),
        ({"expected_spans": [SPAN, {"file": "a"}]}, r"queries\[0\].expected_spans\[1\] has no 'st"),
        ({"expected_spans": [{**SPAN, "start": True}]}, "'start' that is not a whole number"),
        ({"metadata": "x"}, r"queries\[0\].metadata must be an object"),
    ],
)
def test_says_where_a_data_set_is_wrong(dataset, fields, words):
    with pytest.raises(FileError, match=words):
        dataset(**fields)


FOUND = {"q1": [Retrieved("d", text="found", span=Span("a.py", 0, 6))]}


class TestToGroups:
    def test_spans_stand_for_texts_where_there_are_no_answers(self, dataset):
        (group,) = dataset(expected_spans=[SPAN], metadata={"k": "v"}).to_groups(FOUND)
        assert group.spans == Spans((Span("a.py", 3, 9),), [Span("a.py", 0, 6)])
        assert (group.expected, group.retrieved, group.metadata) == ((), (), {"k": "v"})

    def test_texts_where_there_are_both_unless_spans_are_asked_for(self, dataset):
        both = dataset(expected_spans=[SPAN], expected_answers=["a"])
        (group,) = both.to_groups(FOUND)
        assert (group.spans, group.expected) == (None, ["a"])
        (group,) = both.to_groups(FOUND, by_spans=True)
        assert group.spans is not None
        assert group.expected == ()
