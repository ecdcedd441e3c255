"""The judge `answers` over a provider on a real socket, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from judged.values.scores import AnswerItem, AnswerScore
from judged.values.scores import Rubric as RubricSpec
from judged_server.judges.llm.answers import AnswerScorer, AnswersKind
from judged_server.judges.llm.scoring import Asking
from judged_server.llm.caller import CallOptions, ModelCaller
from judged_server.llm.rubrics.rubric import load_builtin
from judged_server.usecases.score_answers import Scoring

from tests.fakes.providers.scripted_models import provider_and_models
from tests.fakes.providers.scripted_provider import Asked, Said, Script, ScriptedProvider

DIMENSIONS = dict.fromkeys(
    ("relevance", "completeness", "accuracy", "source_attribution", "coherence", "confidence"), 0.5
)


def says(score: float) -> dict[str, Any]:
    return {"reasoning": f"it is {score}", "score": score}


@asynccontextmanager
async def scoring_over(script: Script) -> AsyncIterator[tuple[ScriptedProvider, Scoring]]:
    async with provider_and_models(script) as (provider, models):
        yield provider, Scoring(AnswersKind(models, load_builtin(), ModelCaller()))


def scorer_of(scoring: Scoring, rubric: str = "helpfulness", **spec: object) -> AnswerScorer:
    (scorer,) = scoring.choose([RubricSpec(rubric, **spec)])
    return scorer


async def score_of(
    scoring: Scoring, item: AnswerItem, rubric: str = "helpfulness", **spec: object
) -> AnswerScore:
    asking = Asking(ModelCaller(), CallOptions.of(None), asyncio.Semaphore(8), keep_replies=True)
    return await scorer_of(scoring, rubric, **spec).score(item, asking)


ITEM = AnswerItem("1", "q", "a", ["r"], ["c"])


class TestScore:
    async def test_of_a_verdict_is_a_majority_too(self):
        def script(asked: Asked) -> Said:
            no = asked.body["seed"] in {0, 1}
            return {"reasoning": "so", "verdict": "no" if no else "yes"}

        async with scoring_over(script) as (_, scoring):
            score = await score_of(
                scoring, ITEM, "answer_match", min_score=0.1, parameters={"samples": 3}
            )
        assert score.score == pytest.approx(1 / 3)
        assert score.passed is False

    async def test_dimensions_are_the_means_of_the_samples(self):
        def script(asked: Asked) -> Said:
            low = asked.body["seed"] == 2
            scores = dict.fromkeys(DIMENSIONS, 0.3 if low else 0.9)
            return {"reasoning": "so", **scores, "overall": 1 if low else 0.4}

        async with scoring_over(script) as (_, scoring):
            score = await score_of(
                scoring, ITEM, "answer_quality", min_score=0.7, parameters={"samples": 3}
            )
        assert score.score == pytest.approx(0.7)
        assert [each.score for each in score.dimensions] == pytest.approx([0.7] * 6)
        assert score.agreement == pytest.approx(2 / 3)
        assert score.passed is True
        assert score.reported_overall == pytest.approx(0.6)


class TestIdentity:
    async def test_the_signature_is_one_stable_line(self):
        rubrics = load_builtin()
        async with scoring_over(lambda _: says(0.5)) as (_, scoring):
            plain = scorer_of(scoring, parameters={"temperature": 0.5}).identity.signature
            weighed = scorer_of(scoring, "answer_quality").identity.signature
        rubric = rubrics["helpfulness"]
        assert plain == (
            f"answers|rubric:helpfulness@{rubric.version}|sha:{rubric.sha256[:8]}|model:scripted|"
            f"structured:true|samples:3|temperature:0.5|max_tokens:1024|"
            f"min_score:{rubric.min_score:g}|v1"
        )
        assert (
            "|max_context_tokens:8192|weights:relevance=0.2,completeness=0.2,accuracy=0.2,"
            "source_attribution=0.2,coherence=0.2,confidence=0|min_score:"
        ) in weighed

    async def test_everything_that_can_change_a_score_changes_the_key(self):
        specs: tuple[dict[str, Any], ...] = (
            {},
            {"rubric": "helpfulness"},
            {"parameters": {"samples": 3}},
            {"parameters": {"temperature": 1.0, "samples": 1}},
            {"parameters": {"max_tokens": 7}},
            {"parameters": {"max_context_tokens": 7}},
            {"weights": {"relevance": 1.0}},
        )
        async with scoring_over(lambda _: says(0.5)) as (_, scoring):
            keys = [
                scorer_of(scoring, **{"rubric": "answer_quality", **each}).identity.scoring_key
                for each in specs
            ]
            same = scorer_of(
                scoring,
                "answer_quality",
                min_score=0.1,
                weights=dict.fromkeys(list(DIMENSIONS)[:5], 7),
            )
        assert len(set(keys)) == len(specs)
        # Neither the threshold nor weights of the same proportions change a score.
        assert same.identity.scoring_key == keys[0]
