"""Our judge and metrics in MLflow's and Phoenix's evaluations, real ones in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from judged import Client

from tests.adapters.corpus import EXPECTED, FOUND, OTHER, OVERLAP


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """MLflow, keeping its runs in a folder, and telling nobody."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    import mlflow

    mlflow.set_tracking_uri(f"file://{tmp_path}/runs")
    return mlflow


def test_mlflow_evaluates_with_our_scorers(client: Client, mlflow: Any) -> None:
    from judged.adapters.judges.mlflow import JudgedMetric

    expectations = {"expected_retrieved_context": [{"content": EXPECTED}]}
    rows = [
        {"inputs": {"question": "rag"}, "outputs": outputs, "expectations": expectations}
        for outputs in (
            [OTHER, FOUND],
            {"retrieved_contexts": [{"page_content": FOUND}], "answer": "x"},
            [OTHER],
        )
    ]
    scorers = [JudgedMetric(client, "mrr@2", OVERLAP), JudgedMetric(client, "recall@1", OVERLAP)]
    found = mlflow.genai.evaluate(data=rows, scorers=scorers)
    assert found.metrics == {"mrr_at_2/mean": 0.5, "recall_at_1/mean": pytest.approx(1 / 3)}


def test_mlflow_finds_what_was_retrieved_in_a_trace(client: Client, mlflow: Any) -> None:
    from judged.adapters.judges.mlflow import JudgedMetric
    from mlflow.entities import SpanType

    @mlflow.trace(span_type=SpanType.RETRIEVER)
    def search(question: str) -> list[dict[str, str]]:
        return [{"page_content": OTHER}, {"page_content": FOUND}]

    def answer(question: str) -> str:
        return f"{len(search(question))} texts"

    rows = [{"inputs": {"question": "rag"}, "expectations": {"expected_response": EXPECTED}}]
    scorer = JudgedMetric(client, "mrr@2", OVERLAP)
    found = mlflow.genai.evaluate(data=rows, predict_fn=answer, scorers=[scorer])
    assert found.metrics == {"mrr_at_2/mean": 0.5}


def test_mlflow_keeps_an_error_and_no_zero_for_what_cannot_be_judged(
    client: Client, mlflow: Any
) -> None:
    from judged.adapters.judges.mlflow import JudgedMatch

    expected = {"expected_response": EXPECTED}
    rows = [
        {"inputs": {"q": "rag"}, "outputs": FOUND, "expectations": expected},
        {"inputs": {"q": "rag"}, "outputs": OTHER, "expectations": expected},
        {"inputs": {"q": "rag"}, "outputs": FOUND, "expectations": {"expected_facts": ["x"]}},
        {"inputs": {"q": "rag"}, "outputs": {"answer": FOUND}, "expectations": expected},
    ]
    found = mlflow.genai.evaluate(data=rows, scorers=[JudgedMatch(client, OVERLAP)])
    assert found.metrics == {"judged_match/mean": 0.5}
    feedback = [one.get("feedback", {}) for row in found.result_df["assessments"] for one in row]
    errors = [one["error"]["error_message"] for one in feedback if one.get("error")]
    assert len(errors) == 2
    assert 'neither "expected_retrieved_context" nor "expected_response"' in errors[0]
    assert "outputs: must be text, not dict" in errors[1]


def test_phoenix_evaluates_a_frame_with_ours(client: Client) -> None:
    import pandas as pd
    from judged.adapters.judges.phoenix import JudgedMatch, JudgedMetric
    from phoenix.evals import bind_evaluator, evaluate_dataframe

    frame = pd.DataFrame(
        {
            "input": ["rag", "rag"],
            "retrieved_contexts": [[OTHER, FOUND], [OTHER]],
            "reference_contexts": [[EXPECTED], [EXPECTED]],
            "answer": [FOUND, OTHER],
            "reference": [EXPECTED, EXPECTED],
        }
    )
    match = bind_evaluator(
        evaluator=JudgedMatch(client, OVERLAP),
        input_mapping={"input": "input", "output": "answer", "reference": "reference"},
    )
    evaluators = [JudgedMetric(client, "mrr@2", OVERLAP), match]
    found = evaluate_dataframe(dataframe=frame, evaluators=evaluators, hide_tqdm_bar=True)
    scores = [_read(value)["score"] for value in found["mrr@2_score"]]
    labels = [_read(value)["label"] for value in found["judged_match_score"]]
    assert (scores, labels) == ([0.5, 0.0], ["match", "no match"])


def _read(value: Any) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
    return read
