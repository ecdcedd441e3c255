"""Evret: a judge for its Evaluator."""

from __future__ import annotations

from evret.judges.base import Judge as EvretJudge
from evret.judges.base import JudgmentContext

from judged.adapters.judges.sample_judge import SampleJudge
from judged.client import Client
from judged.values import Context, Judge


class JudgedJudge(EvretJudge):  # type: ignore[misc]  # Any where Evret is not installed
    """A judge of a judged server as an Evret Judge. Raises NoVerdict for a missing verdict."""

    def __init__(self, client: Client, judge: Judge | str | None = None) -> None:
        self._asking = SampleJudge(client, judge)

    @property
    def name(self) -> str:
        """The name in Evret's logs."""
        return "judged"

    def judge(self, context: JudgmentContext) -> bool:
        """Return whether the retrieved text is relevant."""
        return self.batch_judge([context])[0]

    def batch_judge(self, contexts: list[JudgmentContext]) -> list[bool]:
        """Return whether each retrieved text is relevant, in one call."""
        return self._asking.decide(
            [Context(c.query, c.expected_text, c.retrieved_text) for c in contexts]
        )
