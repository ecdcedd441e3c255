"""The notation of mixes, and that requests are what it says."""

import argparse

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.v1 import judge_service_pb2 as pb

from benchmarks.load.request_mix import RequestKind, RequestMaker, parse_mix

WHOLE = st.integers(1, 50)
KINDS = st.builds(
    RequestKind, st.sampled_from(["semantic", "token_overlap/weighted"]), WHOLE, WHOLE, WHOLE, WHOLE
)


class TestParseMix:
    def test_all_parts(self):
        (first, second) = parse_mix("semantic:1x10=3, token_overlap/weighted:3x10x8@100=0.5")
        assert first == RequestKind("semantic", 1, 10, weight=3)
        assert second == RequestKind("token_overlap/weighted", 3, 10, 8, 100, 0.5)

    @given(KINDS)
    def test_a_label_reads_back_as_the_kind(self, kind: RequestKind):
        assert parse_mix(kind.label) == [kind]

    @pytest.mark.parametrize(
        "text", ["", "semantic", "semantic:1", "semantic:1x0", "semantic:1x1=0", "a:1x1,", "a:1x-1"]
    )
    def test_what_is_off_is_named(self, text: str):
        with pytest.raises(argparse.ArgumentTypeError, match=r"is not KIND|above 0"):
            parse_mix(text)


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
