from __future__ import annotations

from judged import Status
from judged._convert.verdicts import read_detail
from judged.v1 import verdicts_pb2
from judged.values import Usage


class TestUsage:
    def test_adds_up(self):
        first, second = Usage(1, 2, 3, 4, 0.5, 0.25), Usage(10, 20, 30, 40, 0.25, 0.5)
        assert first + second == Usage(11, 22, 33, 44, 0.75, 0.75)

    def test_a_cost_that_is_not_known_makes_the_sum_unknown(self):
        assert (Usage(cost=0.5) + Usage(cost=None)).cost is None
        assert (Usage(cost=None) + Usage(cost=0.5)).cost is None


def test_a_sample_that_is_no_vote_has_neither_decision_nor_score():
    message = verdicts_pb2.VerdictDetail(
        rationale="so",
        samples=[
            verdicts_pb2.VerdictSample(status=1, relevant=False, score=0.0, raw_reply="NO"),
            verdicts_pb2.VerdictSample(status=3, reason="ERROR_REASON_REFUSED"),
        ],
        model="m",
        system_fingerprint="fp",
    )
    detail = read_detail(message)
    vote, refusal = detail.samples
    assert (vote.status, vote.relevant, vote.score, vote.raw_reply) == (Status.OK, False, 0.0, "NO")
    assert (refusal.status, refusal.relevant, refusal.score) == (Status.ABSTAINED, None, None)
    assert (detail.rationale, detail.model, detail.system_fingerprint) == ("so", "m", "fp")
