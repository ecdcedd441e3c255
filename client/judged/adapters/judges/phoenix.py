"""Phoenix (arize-phoenix-evals): judges and metrics as evaluators."""

from __future__ import annotations

from typing import Any

from phoenix.evals import Evaluator, Score
from pydantic import BaseModel

from judged.adapters.judges.sample_judge import SampleJudge
from judged.client import Client
from judged.values import Context, Judge


class Ranking(BaseModel):
    """The fields of a row that JudgedMetric reads; `bind_evaluator` maps other names to these."""

    input: str
    retrieved_contexts: list[str]
    reference_contexts: list[str]


class Answer(BaseModel):
    """The fields of a row that JudgedMatch reads."""

    input: str
    output: str
    reference: str


class JudgedMetric(Evaluator):  # type: ignore[misc]  # Any where Phoenix is not installed
    """A metric such as recall@5 of `retrieved_contexts` against `reference_contexts`."""

    def __init__(
        self, client: Client, metric: str = "recall@5", judge: Judge | str | None = None
    ) -> None:
        super().__init__(name=metric, kind="code", input_schema=Ranking)
        self._asking = SampleJudge(client, judge)

    def _evaluate(self, eval_input: dict[str, Any]) -> list[Score]:
        """Return the metric of a row. Raises NoVerdict for a missing verdict."""
        row = Ranking.model_validate(eval_input)
        value = self._asking.measure(
            self.name, row.input, row.reference_contexts, row.retrieved_contexts
        )
        why = f"{self.name} is {value:.4f} over {len(row.retrieved_contexts)} retrieved texts"
        return [Score(name=self.name, score=value, explanation=why, kind="code")]


class JudgedMatch(Evaluator):  # type: ignore[misc]  # Any where Phoenix is not installed
    """Whether the judge finds that `output` matches `reference`: its score, and a label."""

    def __init__(
        self, client: Client, judge: Judge | str | None = None, *, name: str = "judged_match"
    ) -> None:
        super().__init__(name=name, kind="code", input_schema=Answer)
        self._asking = SampleJudge(client, judge)

    def _evaluate(self, eval_input: dict[str, Any]) -> list[Score]:
        """Return the verdict of a row. Raises NoVerdict for a missing verdict."""
        row = Answer.model_validate(eval_input)
        score, relevant, signature = self._asking.score(
            Context(row.input, row.reference, row.output)
        )
        label = "match" if relevant else "no match"
        return [Score(name=self.name, score=score, label=label, explanation=f"by {signature}")]
