"""Datasets in Evret's layout, and their join with results."""

import json

import pytest
from judged import QueryGroup
from judged.evaluation import Dataset, Document, FileError, MissingText, Query, Retrieved


def write(tmp_path, value):
    path = tmp_path / "dataset.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


class TestFromJson:
    def test_reads_queries_and_documents(self, tmp_path):
        path = write(
            tmp_path,
            {
                "name": "passed over",
                "queries": [
                    {
                        "query_id": "q1",
                        "query_text": "what",
                        "expected_answers": ["a", " ", "b", "a"],
                    },
                    {"query_id": "q2", "query_text": "", "expected_doc_ids": ["d1", 2, "d1"]},
                ],
                "documents": [{"doc_id": "d1", "text": "x", "metadata": {"page": 3}}],
            },
        )
        assert Dataset.from_json(path) == Dataset(
            [Query("q1", "what", ["a", "b"], []), Query("q2", "", [], ["d1", "2"])],
            {"d1": Document("d1", "x", {"page": 3})},
        )

    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            ("{", "is not JSON"),
            ({"queries": []}, "has no query"),
            ({"queries": ["q"]}, "queries[0] must be an object"),
            (
                {"queries": [{"query_id": "a", "query_text": "b", "expected_answers": "c"}]},
                "queries[0] has 'expected_answers' that is not a list but text",
            ),
            (
                {"queries": [{"query_id": "a", "query_text": "b"}] * 2},
                "queries[1] has the query_id 'a' of an earlier query",
            ),
            (
                {
                    "queries": [{"id": "a", "query": "b"}],
                    "documents": [{"doc_id": "d", "text": "x"}] * 2,
                },
                "documents[1] has the id 'd' of an earlier document",
            ),
        ],
    )
    def test_names_what_is_wrong(self, tmp_path, value, problem):
        path = write(tmp_path, value)
        with pytest.raises(FileError) as caught:
            Dataset.from_json(path)
        assert str(caught.value).startswith(f"{path}: {problem}")


class TestToGroups:
    dataset = Dataset(
        [Query("q1", "what", ["a", "b"]), Query("q2", "who", ["unused"], ["d1", "d3"])],
        {"d1": Document("d1", "text of d1")},
    )

    def test_joins_results_in_the_order_of_the_queries(self):
        groups = self.dataset.to_groups(
            {
                "q2": [Retrieved("d1"), Retrieved("d2")],
                "q1": [Retrieved("d1"), Retrieved("d2", 0.5, "own text"), Retrieved(text="free")],
                "q9": [Retrieved("d9")],
            }
        )
        assert groups == [
            QueryGroup(
                "what",
                ["a", "b"],
                ["text of d1", "own text", "free"],
                "q1",
                ["d1", "d2", "retrieved_2"],
            ),
            QueryGroup("who", (), ["text of d1", ""], "q2", ["d1", "d2"], ["d1", "d3"]),
        ]

    def test_needs_a_text_to_judge(self):
        with pytest.raises(MissingText, match="'q1', result 2 has no 'text'"):
            self.dataset.to_groups({"q1": [Retrieved("d1"), Retrieved("d2")]})
        with pytest.raises(TypeError, match=r"results\['q1'\]: must hold Retrieved.*, not str"):
            self.dataset.to_groups({"q1": ["text"]})
