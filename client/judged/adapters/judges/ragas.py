"""Ragas: a ranking metric for its `evaluate`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from ragas.dataset_schema import SingleTurnSample
from ragas.metrics.base import MetricType, SingleTurnMetric

from judged.adapters.judges.sample_judge import SampleJudge


@dataclass
class JudgedMetric(SingleTurnMetric):  # type: ignore[misc]  # Any where Ragas is not installed
    """A metric such as recall@5 of `retrieved_contexts` against `reference_contexts`.

    `name` is the metric. For a sample with missing verdicts Ragas gives NaN, unless its
    `raise_exceptions` is set.
    """

    name: str = "recall@5"
    asking: SampleJudge | None = None
    _required_columns: dict[MetricType, set[str]] = field(
        default_factory=lambda: {
            MetricType.SINGLE_TURN: {"user_input", "retrieved_contexts", "reference_contexts"}
        }
    )

    def init(self, run_config: Any) -> None:  # noqa: ANN401 - Ragas's; there is nothing to set up
        """Do nothing: the client is open already."""

    async def _single_turn_ascore(self, sample: SingleTurnSample, callbacks: Any) -> float:  # noqa: ANN401 - Ragas's
        del callbacks
        if self.asking is None:
            raise ValueError("JudgedMetric needs asking=SampleJudge(client, judge)")
        return await asyncio.to_thread(
            self.asking.measure,
            self.name,
            sample.user_input or "",
            sample.reference_contexts or [],
            sample.retrieved_contexts or [],
        )
