"""LangChain evaluation (langchain-classic): a judge as a string evaluator."""

from __future__ import annotations

from typing import Any

from langchain_classic.evaluation import StringEvaluator

from judged.adapters.judges.sample_judge import SampleJudge, need_text
from judged.client import Client
from judged.values import Context, Judge


class JudgedStringEvaluator(StringEvaluator):  # type: ignore[misc]  # Any where it is not installed
    """Scores whether the judge finds that a prediction matches the reference."""

    def __init__(self, client: Client, judge: Judge | str | None = None) -> None:
        self._asking = SampleJudge(client, judge)

    @property
    def evaluation_name(self) -> str:
        """The name in LangChain's results."""
        return "judged"

    @property
    def requires_input(self) -> bool:
        """True: the input is the query, which judges see too."""
        return True

    @property
    def requires_reference(self) -> bool:
        """True: predictions are compared with the reference."""
        return True

    def _evaluate_strings(
        self,
        *,
        prediction: Any,  # noqa: ANN401 - LangChain's
        reference: Any = None,  # noqa: ANN401 - LangChain's
        input: Any = None,  # noqa: A002, ANN401 - LangChain's
        **_: Any,  # noqa: ANN401 - LangChain's
    ) -> dict[str, Any]:
        expected, answer = need_text(reference, "reference"), need_text(prediction, "prediction")
        context = Context(need_text(input or "", "input"), expected, answer)
        score, relevant, signature = self._asking.score(context)
        return {"score": score, "value": "Y" if relevant else "N", "reasoning": f"by {signature}"}
