"""inspect_ai: a judge as a scorer of its tasks."""

from __future__ import annotations

import asyncio

from inspect_ai.scorer import CORRECT, INCORRECT, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import TaskState

from judged.adapters.judges.sample_judge import SampleJudge
from judged.client import Client
from judged.values import Context, Judge


@scorer(metrics=[accuracy(), stderr()])  # type: ignore[untyped-decorator]  # Any where inspect_ai is not installed
def judged_match(client: Client, judge: Judge | str | None = None) -> Scorer:
    """Score a completion as correct if the judge finds that it matches a target.

    The best of several targets counts. Raises NoVerdict for a missing verdict.
    """
    asking = SampleJudge(client, judge)

    async def score(state: TaskState, target: Target) -> Score:
        answer = state.output.completion
        contexts = [Context(state.input_text, expected, answer) for expected in target]
        scored = [await asyncio.to_thread(asking.score, context) for context in contexts]
        best, relevant, signature = max(scored, key=lambda each: (each[1], each[0]))
        return Score(
            value=CORRECT if relevant else INCORRECT,
            answer=answer,
            explanation=f"score {best:.4f} by {signature}",
            metadata={"score": best},
        )

    return score
