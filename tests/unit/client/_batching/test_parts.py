"""A stream of parts over tries that break: it is sent again from its start."""

from __future__ import annotations

from typing import cast

import pytest
from judged import InternalError, InvalidArgument, MetricOptions, TrecRankings, Unavailable
from judged._batching import parts
from judged._batching.parts import MetricStream
from judged._transport.call import Attempts, Deadline, Patience
from judged.v1 import judge_service_pb2 as pb


def stream(run: dict[str, list[str]]) -> MetricStream:
    return MetricStream(["ap"], TrecRankings({}, run), MetricOptions(), {}, None)


@pytest.mark.parametrize("read", [0, 1, 3, 9])
def test_each_try_sends_all_parts(monkeypatch, read):
    monkeypatch.setattr(parts, "PART_BYTES", 8)
    asked = stream({str(n): ["abc"] for n in range(9)})
    assert asked.alone is None
    broken = asked.request()
    for _ in range(read):
        next(broken)
    assert asked.wait_after(Unavailable("gone"), Attempts(Deadline(60), Patience()))
    sent = cast("list[pb.StreamMetricsRequest]", list(asked.request()))
    again = [name for message in sent for name in message.part.trec.run_columns.query_ids]
    assert again == [str(n) for n in range(9)]
    with pytest.raises(InternalError, match="without a reply"):
        asked.ended()
    asked.take(pb.StreamMetricsResponse())
    asked.ended()
    assert asked.done


def test_what_can_not_be_written_is_raised_where_one_waits(monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES", 8)
    asked = stream({**{str(n): ["abc"] for n in range(3)}, "a": ["a\nb"]})
    assert len(list(asked.request())) == 3
    asked.take(pb.StreamMetricsResponse())
    attempts = Attempts(Deadline(60), Patience())
    for wait in (asked.ended, lambda: asked.wait_after(Unavailable("gone"), attempts)):
        with pytest.raises(InvalidArgument, match=r"trec\.run\[3\]\.document_ids"):
            wait()
