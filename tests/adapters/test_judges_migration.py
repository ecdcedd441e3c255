"""DeepEval's contextual precision beside ours on one case: the figures of docs/migration.md."""

from __future__ import annotations

from typing import Any

import pytest
from judged import Client

from tests.adapters.corpus import TEXTS
from tests.adapters.page import PAGE, run_snippet


def test_contextual_precision_beside_ap(client: Client) -> None:
    from deepeval.metrics import ContextualPrecisionMetric
    from deepeval.models import DeepEvalBaseLLM
    from deepeval.test_case import LLMTestCase

    class Scripted(DeepEvalBaseLLM):
        def load_model(self) -> Any:
            return self

        def get_model_name(self) -> str:
            return "scripted"

        def generate(self, prompt: str, schema: Any = None) -> Any:
            verdicts = [{"verdict": one, "reason": "so"} for one in ("yes", "no", "yes")]
            return schema(verdicts=verdicts)

        async def a_generate(self, prompt: str, schema: Any = None) -> Any:
            return self.generate(prompt, schema)

    case = LLMTestCase(
        input="which rules are there",
        expected_output=" ".join(TEXTS.values()),
        context=[TEXTS["d1"], TEXTS["d2"], TEXTS["d4"]],
        retrieval_context=[TEXTS["d1"], TEXTS["d3"], TEXTS["d2"]],
    )
    metric = ContextualPrecisionMetric(model=Scripted(), include_reason=False, async_mode=False)
    theirs = metric.measure(case, _show_indicator=False)
    found = run_snippet("DeepEval", client, test_cases=[case])
    assert theirs == pytest.approx((1 + 2 / 3) / 2)
    assert found["ap"].mean == pytest.approx((1 + 2 / 3) / 3)
    figures = f"precision is {theirs:.4f}, `ap` {found['ap'].mean:.4f}"
    assert figures in " ".join(PAGE.split())
