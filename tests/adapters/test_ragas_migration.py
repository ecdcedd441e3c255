"""Ragas's metrics beside ours on one sample: the figures of docs/migration.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from judged import Client

from tests.adapters.corpus import TEXTS
from tests.adapters.page import PAGE, run_snippet

SAMPLE = {
    "user_input": "which rules are there",
    "retrieved_contexts": [TEXTS["d1"], TEXTS["d3"], TEXTS["d2"]],
    "reference_contexts": [TEXTS["d1"], TEXTS["d2"], TEXTS["d4"]],
}


def test_context_precision_and_recall_beside_ap_and_recall(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ragas import EvaluationDataset, evaluate
    from ragas.metrics import NonLLMContextPrecisionWithReference, NonLLMContextRecall

    samples = EvaluationDataset.from_list([SAMPLE])
    metrics = [NonLLMContextPrecisionWithReference(), NonLLMContextRecall()]
    (theirs,) = evaluate(samples, metrics, show_progress=False).scores
    monkeypatch.chdir(tmp_path)
    samples.to_jsonl("samples.jsonl")
    found = run_snippet("Ragas", client)
    precision, recall = theirs.values()
    assert precision == pytest.approx((1 + 2 / 3) / 2)
    assert found["ap"].mean == pytest.approx((1 + 2 / 3) / 3)
    assert recall == pytest.approx(found["recall"].mean) == pytest.approx(2 / 3)
    text = " ".join(PAGE.split())
    assert f"precision is {precision:.4f} and its context recall {recall:.4f}" in text
    assert f"`ap` is {found['ap'].mean:.4f} and `recall` {found['recall'].mean:.4f}" in text
