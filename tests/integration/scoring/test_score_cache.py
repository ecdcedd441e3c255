"""What ScoreAnswers asks a provider for, and what its cache has already."""

from __future__ import annotations

import pytest
from judged.v1 import verdicts_pb2
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.providers.scripted_provider import ScriptedProvider
from tests.integration.scoring.score_requests import item, request, scored, spec


class TestCache:
    def test_a_score_that_was_asked_for_before_takes_nothing(
        self, stub: JudgeServiceStub, provider: ScriptedProvider
    ):
        rubrics = [spec("helpfulness", samples=2), spec("answer_quality"), spec("faithfulness")]
        asked = request([item(answer="Kept. Kept too")], *rubrics, asking=None)
        first, taken = scored(stub, asked)
        assert taken.usage.cached == 0
        before = provider.requests
        second, nothing = scored(stub, asked)
        assert provider.requests == before
        assert (nothing.usage.calls, nothing.usage.cost) == (0, 0)
        assert nothing.usage.cached == taken.usage.calls == 6
        for key, score in second.items():
            assert score.source == verdicts_pb2.VERDICT_SOURCE_CACHE
            assert score.score == first[key].score
            assert score.claims == first[key].claims
            assert score.model == first[key].model
        # Neither another threshold nor other weights ask anew.
        others = [
            spec("helpfulness", 0.99, samples=2),
            spec("answer_quality", weights={"coherence": 1}),
        ]
        again, _ = scored(stub, request([item(answer="Kept. Kept too")], *others, asking=None))
        assert provider.requests == before
        assert again["1", "answer_quality"].score == pytest.approx(0.8)
        assert not again["1", "helpfulness"].passed

    def test_one_more_sample_is_computed(self, stub: JudgeServiceStub, provider: ScriptedProvider):
        asked = item(answer="sampled")
        scored(stub, request([asked], spec("helpfulness"), asking=None))
        before = provider.requests
        more, _ = scored(stub, request([asked], spec("helpfulness", samples=3), asking=None))
        (score,) = more.values()
        assert provider.requests == before + 2
        assert score.source == verdicts_pb2.VERDICT_SOURCE_COMPUTED
        assert (score.usage.cached, score.usage.calls) == (1, 2)
