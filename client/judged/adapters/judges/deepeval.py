"""DeepEval: a ranking metric for its test cases."""

from __future__ import annotations

import asyncio
from typing import Any

from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase

from judged.adapters.judges.sample_judge import SampleJudge
from judged.client import Client
from judged.values import Judge


class JudgedMetric(BaseMetric):  # type: ignore[misc]  # Any where DeepEval is not installed
    """A metric such as recall@5 of a case's `retrieval_context` against its `context`.

    If a case has no `context`, its `expected_output` is the expected text. A case succeeds from
    `threshold` on.
    """

    def __init__(
        self,
        client: Client,
        metric: str = "recall@5",
        judge: Judge | str | None = None,
        threshold: float = 0.5,
    ) -> None:
        super().__init__()
        self.metric, self.threshold = metric, threshold
        self._asking = SampleJudge(client, judge)

    def measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:  # noqa: ANN401 - DeepEval's
        """Return the metric of a case. Raises NoVerdict for a missing verdict."""
        answer = test_case.expected_output
        expected = test_case.context or ([answer] if answer else [])
        retrieved = test_case.retrieval_context or []
        value = self._asking.measure(self.metric, test_case.input, expected, retrieved)
        self.score = value
        self.success = value >= self.threshold
        self.reason = f"{self.metric} is {value:.4f} over {len(retrieved)} retrieved texts"
        return value

    async def a_measure(self, test_case: LLMTestCase, *_: Any, **__: Any) -> float:  # noqa: ANN401 - DeepEval's
        """Return the metric of a case."""
        return await asyncio.to_thread(self.measure, test_case)

    def is_successful(self) -> bool:
        """Return whether the last case reached the threshold."""
        return self.error is None and bool(self.success)

    @property
    def __name__(self) -> str:
        return f"judged {self.metric}"
