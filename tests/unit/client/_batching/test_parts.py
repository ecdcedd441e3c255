"""A stream of parts over tries that break: it is sent again from its start."""

from __future__ import annotations

from functools import partial
from typing import cast

import pytest
from judged import (
    InternalError,
    InvalidArgument,
    MetricOptions,
    TextItem,
    TrecRankings,
    Unavailable,
)
from judged._batching import parts
from judged._batching.parts import PartStream, metric_parts, text_parts
from judged._transport.call import Attempts, Deadline, Patience
from judged.v1 import judge_service_pb2, statistics_service_pb2


def texts() -> PartStream:
    items = (TextItem(str(n), ["abc"]) for n in range(9))  # which are read once
    written = text_parts(["bleu"], items, per_item=False, interval=None)
    return PartStream(written, statistics_service_pb2.StreamTextMetricsRequest)


def topics(run: dict[str, list[str]]) -> PartStream:
    whole = TrecRankings({}, run)
    written = partial(metric_parts, ["ap"], whole, MetricOptions(), {}, None)
    return PartStream(written, judge_service_pb2.StreamMetricsRequest, whole)


@pytest.mark.parametrize("read", [0, 1, 3, 9])
def test_each_try_sends_all_parts(monkeypatch, read):
    monkeypatch.setattr(parts, "PART_BYTES", 8)
    asked = texts()
    assert asked.alone is None
    broken = asked.request()
    for _ in range(read):
        next(broken)
    assert asked.wait_after(Unavailable("gone"), Attempts(Deadline(60), Patience()))
    sent = cast("list[statistics_service_pb2.StreamTextMetricsRequest]", list(asked.request()))
    again = [item.hypothesis for message in sent for item in message.part.items]
    assert again == [str(n) for n in range(9)]
    with pytest.raises(InternalError, match="without a reply"):
        asked.ended()
    asked.take(statistics_service_pb2.StreamTextMetricsResponse())
    asked.ended()
    assert asked.done


def test_what_can_not_be_written_is_raised_where_one_waits(monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES", 8)
    asked = topics({**{str(n): ["abc"] for n in range(3)}, "a": ["a\nb"]})
    assert len(list(asked.request())) == 3
    asked.take(judge_service_pb2.StreamMetricsResponse())
    attempts = Attempts(Deadline(60), Patience())
    for wait in (asked.ended, lambda: asked.wait_after(Unavailable("gone"), attempts)):
        with pytest.raises(InvalidArgument, match=r"trec\.run\[3\]\.document_ids"):
            wait()
