"""Judges and measures single samples for the suites of other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judged.client import Client
from judged.errors import FailedPrecondition, WrongType
from judged.values import Context, Judge, QueryGroup


class NoVerdict(FailedPrecondition):
    """A verdict is missing, so there is no value: a failure never counts as 0."""


def need_text(value: object, field: str) -> str:
    """Return a text. Raises WrongType for anything else, such as a message around it."""
    if not isinstance(value, str):
        raise WrongType.of_field(field, f"must be text, not {type(value).__name__}")
    return value


@dataclass(frozen=True, slots=True)
class SampleJudge:
    """Asks a server about single samples. Raises NoVerdict, and what the client raises."""

    client: Client
    judge: Judge | str | None = None
    timeout: float = 600.0

    def decide(self, contexts: Sequence[Context]) -> list[bool]:
        """Return whether each context is relevant."""
        verdicts = self.client.judge(contexts, self.judge, timeout=self.timeout)
        for index, error in verdicts.errors.items():
            raise NoVerdict(f"context {index} has no verdict: {error.reason}: {error.message}")
        return [bool(relevant) for relevant in verdicts.relevant]

    def score(self, context: Context) -> tuple[float, bool, str]:
        """Return the score of a context, whether it is relevant, and the judge's signature."""
        verdicts = self.client.judge([context], self.judge, timeout=self.timeout)
        verdict = verdicts[0]
        if verdict.score is None or verdict.relevant is None:
            error = verdict.error
            why = verdict.status.name if error is None else f"{error.reason}: {error.message}"
            raise NoVerdict(f"there is no verdict: {why}")
        return verdict.score, verdict.relevant, verdicts.judge.signature

    def measure(
        self, metric: str, query: str, expected: Sequence[str], retrieved: Sequence[str]
    ) -> float:
        """Return a ranking metric of the texts retrieved for one query."""
        group = QueryGroup(query, list(expected), list(retrieved), "sample")
        found = self.client.evaluate([group], [metric], self.judge, timeout=self.timeout)
        result = found.table[metric]
        if result.mean is None or result.lower_bound is not None:
            raise NoVerdict(
                f"{metric} has no value: verdicts are missing, or the sample expects no text"
            )
        return result.mean
