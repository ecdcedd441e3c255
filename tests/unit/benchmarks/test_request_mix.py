"""The notation of mixes, and that requests are what it says."""

import pytest
from judged.v1 import judge_service_pb2 as pb

from benchmarks.load.request_mix import RequestKind, RequestMaker, parse_mix


class TestRequestMaker:
    def test_a_request_has_the_shape_of_its_kind(self):
        kind = RequestKind("token_overlap/weighted", 2, 3, 4, 20)
        request = RequestMaker([kind], 1).make()
        message = pb.BatchJudgeRequest.FromString(request.body)
        assert (message.judge.kind, message.judge.profile) == ("token_overlap", "weighted")
        assert [(len(g.expected), len(g.retrieved)) for g in message.groups] == [(2, 3)] * 4
        assert request.contexts == kind.contexts == 24
        sizes = [len(t.split()) for g in message.groups for t in (*g.expected, *g.retrieved)]
        assert min(sizes) >= 10
        assert max(sizes) <= 31

    def test_texts_are_new_unless_repeated(self):
        kind = RequestKind("semantic", 1, 4)
        maker = RequestMaker([kind], 1)
        assert len({maker.make().body for _ in range(50)}) == 50
        repeating = RequestMaker([kind], 1, repeat=1.0)
        assert len({repeating.make().body for _ in range(50)}) == 1

    def test_weights_are_shares(self):
        maker = RequestMaker(parse_mix("exact:1x1=3,semantic:1x1=1"), 1, repeat=0.9)
        labels = [maker.make().label for _ in range(2_000)]
        assert labels.count("exact:1x1") / 2_000 == pytest.approx(0.75, abs=0.05)
