"""Our metric in Ragas, and our judge in LangChain's evaluation, which Ragas brings."""

from __future__ import annotations

from pathlib import Path

from judged import Client
from judged.adapters.judges.sample_judge import SampleJudge
from judged.evaluation import Dataset

from tests.adapters.corpus import EXPECTED, FOUND, OTHER, OVERLAP


def test_ragas_evaluates_with_our_metric(client: Client) -> None:
    from judged.adapters.judges.ragas import JudgedMetric
    from ragas import EvaluationDataset, evaluate

    samples = [
        {
            "user_input": "rag",
            "retrieved_contexts": [OTHER, FOUND],
            "reference_contexts": [EXPECTED],
        },
        {"user_input": "rag", "retrieved_contexts": [OTHER], "reference_contexts": [EXPECTED]},
    ]
    asking = SampleJudge(client, OVERLAP)
    metrics = [
        JudgedMetric(name="mrr@2", asking=asking),
        JudgedMetric(name="recall@2", asking=asking),
    ]
    found = evaluate(EvaluationDataset.from_list(samples), metrics, show_progress=False)
    assert [row["mrr@2"] for row in found.scores] == [0.5, 0.0]
    assert [row["recall@2"] for row in found.scores] == [1.0, 0.0]


def test_langchains_evaluators_take_ours(client: Client) -> None:
    from judged.adapters.judges.langchain import JudgedStringEvaluator

    evaluator = JudgedStringEvaluator(client, OVERLAP)
    found = evaluator.evaluate_strings(prediction=FOUND, reference=EXPECTED, input="what is rag")
    assert (found["value"], found["score"] > 0.6) == ("Y", True)
    assert (
        evaluator.evaluate_strings(prediction=OTHER, reference=EXPECTED, input="x")["value"] == "N"
    )


def test_data_sets_of_ragas_and_of_hugging_face_are_read(tmp_path: Path) -> None:
    import datasets
    from ragas import EvaluationDataset

    sample = {"user_input": "a", "retrieved_contexts": ["x"], "reference_contexts": ["y, z"]}
    EvaluationDataset.from_list([sample]).to_jsonl(tmp_path / "s.jsonl")
    (query,) = Dataset.load(tmp_path / "s.jsonl", "ragas").queries
    assert (query.query_id, query.text, list(query.expected_answers)) == ("q1", "a", ["y, z"])
    rows = datasets.Dataset.from_list([{"query": "a", "expected_answers": ["y, z"], "level": 3}])
    (query,) = Dataset.from_rows(rows).queries
    assert (query.text, list(query.expected_answers), query.metadata) == (
        "a",
        ["y, z"],
        {"level": "3"},
    )
