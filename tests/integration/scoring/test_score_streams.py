"""How the stream of ScoreAnswers goes: in what order, until when, how fast."""

from __future__ import annotations

import time

from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.providers.scripted_provider import ScriptedProvider
from tests.integration.scoring.score_requests import item, outcome, request, scored, spec
from tests.integration.server_process import until


class TestLife:
    def test_scores_come_as_they_are_done(self, stub: JudgeServiceStub, provider: ScriptedProvider):
        asked = request([item("1", answer="slow"), item("2")], spec("helpfulness"))
        call = stub.ScoreAnswers(asked, timeout=30)
        assert next(call).HasField("started")
        assert next(call).score.item_id == "2"
        call.cancel()
        until(lambda: provider.in_flight == 0)

    def test_what_is_late_is_a_timeout_and_the_stream_ends_in_time(self, stub: JudgeServiceStub):
        items = [item("1", answer="slow"), item("2"), item("3", answer="One. Two slow. Three")]
        asked = request(items, spec("helpfulness"), spec("faithfulness"))
        # A stream that outlasts its deadline raises.
        scores, summary = scored(stub, asked, timeout=4)
        assert outcome(scores["1", "helpfulness"]) == ("ERROR", "TIMEOUT")
        assert scores["1", "helpfulness"].error.retryable
        assert outcome(scores["2", "helpfulness"]) == ("OK", "")
        assert outcome(scores["3", "faithfulness"]) == ("ERROR", "TIMEOUT")
        assert [claim.claim for claim in scores["3", "faithfulness"].claims] == ["One", "Three"]
        assert summary.rubrics[0].counts.error == 2
        assert summary.rubrics[0].mean == 0.9

    def test_a_slow_reader_stops_the_work(self, stub: JudgeServiceStub, provider: ScriptedProvider):
        items = [item(str(n), answer=f"{n} at length") for n in range(3000)]
        before = provider.requests
        call = stub.ScoreAnswers(
            request(items, spec("helpfulness"), include_replies=True), timeout=100
        )
        next(call)
        next(call)
        seen = [-1, provider.requests]
        while seen[-1] != seen[-2]:  # until nothing more is asked
            time.sleep(0.5)
            seen.append(provider.requests)
        assert seen[-1] < before + 3000
        assert len(list(call)) == 3000
        assert provider.requests == before + 3000
