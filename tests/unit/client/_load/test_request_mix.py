"""The notation of mixes, and that requests are what it says."""

import itertools
import json
import statistics
from itertools import islice

import pytest
from judged._load.open_loop import METHOD
from judged._load.request_mix import (
    arrivals,
    parse_mix,
    read_replay,
    requests,
)
from judged.errors import InvalidArgument
from judged.evaluation import FileError
from judged.v1 import judge_service_pb2 as pb


class TestRequests:
    def test_a_request_has_the_shape_of_its_kind(self):
        (kind,) = parse_mix("token_overlap/weighted:2x3x4@20=0.5")
        request = next(requests([kind], 1))
        message = pb.BatchJudgeRequest.FromString(request.body)
        assert (message.judge.kind, message.judge.profile) == ("token_overlap", "weighted")
        assert [(len(g.expected), len(g.retrieved)) for g in message.groups] == [(2, 3)] * 4
        assert request.contexts == kind.contexts == 24
        assert request.label == "token_overlap/weighted:2x3x4@20"
        sizes = [len(t.split()) for g in message.groups for t in (*g.expected, *g.retrieved)]
        assert min(sizes) >= 10
        assert max(sizes) <= 31

    def test_texts_are_new_unless_repeated(self):
        mix = parse_mix("semantic:1x4")
        assert len({request.body for request in islice(requests(mix, 1), 50)}) == 50
        assert len({request.body for request in islice(requests(mix, 1, repeat=1.0), 50)}) == 1

    def test_weights_are_shares(self):
        made = requests(parse_mix("exact:1x1=3,semantic:1x1=1"), 1, repeat=0.9)
        labels = [request.label for request in islice(made, 2_000)]
        assert labels.count("exact:1x1") / 2_000 == pytest.approx(0.75, abs=0.05)

    @pytest.mark.parametrize(
        "text", ["", "exact", "exact:0x1", "exact:1x1=0", "a:1x1@40001", "a:1x1,b"]
    )
    def test_a_wrong_part_is_named(self, text):
        with pytest.raises(InvalidArgument, match=r"^mix: ") as caught:
            parse_mix(text)
        assert repr(text.split(",")[-1]) in str(caught.value)


class TestArrivals:
    def test_even_ones_come_at_the_rate(self):
        assert list(arrivals(4.0, 1.01, poisson=False, seed=1)) == [0.25, 0.5, 0.75, 1.0]

    def test_random_ones_come_at_the_rate_on_average(self):
        due = list(arrivals(100.0, 100.0, poisson=True, seed=1))
        assert len(due) == pytest.approx(10_000, rel=0.03)
        gaps = [after - before for before, after in itertools.pairwise(due)]
        assert statistics.stdev(gaps) == pytest.approx(0.01, rel=0.05)


class TestReplay:
    def test_calls_of_a_log_came_when_they_began(self, tmp_path):
        call = {"part": "call", "method": METHOD, "code": "OK", "event": "call"}
        lines = [
            {"part": "server", "event": "ready", "timestamp": "2026-01-01T00:00:00.000000Z"},
            {**call, "ms": 500.0, "timestamp": "2026-01-01T00:00:02.500000Z"},
            {**call, "ms": 2000.0, "timestamp": "2026-01-01T00:00:03.000000Z"},
            {**call, "method": "/x/Other", "ms": 1, "timestamp": "2026-01-01T00:00:09.000000Z"},
            {**call, "ms": 0.0, "timestamp": "2026-01-01T00:00:04.000000Z"},
        ]
        path = tmp_path / "server.log"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        replay = read_replay(str(path))
        assert replay.instants == pytest.approx([0.0, 1.0, 3.0])
        assert replay.rate == pytest.approx(3 / 4.5)
        # Its own pace, then twice as fast, and from the start again.
        assert list(replay.arrivals(replay.rate, 5.0)) == pytest.approx([0, 1, 3, 4.5])
        assert list(replay.arrivals(2 * replay.rate, 4.5)) == pytest.approx(
            [0, 0.5, 1.5, 2.25, 2.75, 3.75]
        )

    def test_lines_may_say_seconds(self, tmp_path):
        path = tmp_path / "at.jsonl"
        path.write_text('{"at": 7.5}\n{"at": 7}\n')
        assert read_replay(str(path)).instants == [0.0, 0.5]

    @pytest.mark.parametrize("text", ['{"at": 1}\n', '{"at": 1}\n{"at": 1}\n', '{"x": 1}\n'])
    def test_fewer_than_two_instants_are_refused(self, tmp_path, text):
        path = tmp_path / "at.jsonl"
        path.write_text(text)
        with pytest.raises(FileError, match="fewer than two times"):
            read_replay(str(path))
