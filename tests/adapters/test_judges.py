"""Our judges and metrics in the suites of other libraries, real ones in this process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from judged import Client, Context, Judge
from judged.adapters.judges.sample_judge import NoVerdict, SampleJudge

from tests.adapters.corpus import EXPECTED, FOUND, OTHER, OVERLAP


def test_evrets_own_evaluator_runs_with_our_judge_and_gives_its_numbers(client: Client) -> None:
    from evret import EvaluationDataset, Evaluator, HitRate, TokenOverlapJudge
    from evret.evaluation.dataset import QueryExample
    from evret.retrievers.base import BaseRetriever, RetrievalResult
    from judged.adapters.judges.evret import JudgedJudge

    class Shelf(BaseRetriever):
        def retrieve(self, query: str, k: int) -> list[RetrievalResult]:
            texts = [OTHER, FOUND] if query == "rag" else [OTHER]
            return [
                RetrievalResult(doc_id=f"d{i}", score=1.0 - i / 9, metadata={"text": text})
                for i, text in enumerate(texts)
            ][:k]

    queries = [QueryExample("q1", "rag", [], [EXPECTED]), QueryExample("q2", "x", [], [EXPECTED])]
    metrics = [HitRate(k=1), HitRate(k=2)]
    scores = []
    for judge in (TokenOverlapJudge(), JudgedJudge(client, Judge("token_overlap", "weighted"))):
        found = Evaluator(retriever=Shelf(), metrics=metrics, judge=judge).evaluate(
            EvaluationDataset(queries)
        )
        scores.append(found.summary() if callable(found.summary) else found.summary)
    assert scores[0] == scores[1]


def test_deepeval_measures_with_our_metric(client: Client) -> None:
    from deepeval.test_case import LLMTestCase
    from judged.adapters.judges.deepeval import JudgedMetric

    metric = JudgedMetric(client, "mrr@2", OVERLAP, threshold=0.4)
    case = LLMTestCase(
        input="rag", actual_output="an answer", context=[EXPECTED], retrieval_context=[OTHER, FOUND]
    )
    assert metric.measure(case) == 0.5
    assert (metric.is_successful(), metric.reason) == (
        True,
        "mrr@2 is 0.5000 over 2 retrieved texts",
    )
    worse = LLMTestCase(
        input="rag", actual_output="an answer", expected_output=EXPECTED, retrieval_context=[OTHER]
    )
    assert asyncio.run(metric.a_measure(worse)) == 0.0
    assert not metric.is_successful()
    nothing = LLMTestCase(input="rag", actual_output="an answer", retrieval_context=[OTHER])
    with pytest.raises(NoVerdict):
        metric.measure(nothing)


def test_inspect_ai_runs_a_task_with_our_scorer(client: Client, tmp_path: Any) -> None:
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import solver
    from judged.adapters.judges.inspect_ai import judged_match

    @solver
    def recall_by_heart() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state.output = ModelOutput.from_content("by heart", state.metadata["answer"])
            return state

        return solve

    samples = [
        Sample(input="what is rag", target=EXPECTED, metadata={"answer": answer})
        for answer in (FOUND, OTHER)
    ]
    task = inspect_ai.Task(samples, solver=recall_by_heart(), scorer=judged_match(client, OVERLAP))
    (log,) = inspect_ai.eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    values = [sample.scores["judged_match"].value for sample in log.samples]
    assert values == ["C", "I"]
    assert "token_overlap|profile:weighted" in log.samples[0].scores["judged_match"].explanation


def test_a_missing_verdict_is_no_zero(client: Client) -> None:
    asking = SampleJudge(client, "exact")
    with pytest.raises(NoVerdict, match="expects no text"):
        asking.measure("recall@1", "q", [], ["a"])
    assert asking.decide([Context("q", "a", "a"), Context("q", "a", "b")]) == [True, False]
