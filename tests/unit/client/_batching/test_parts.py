"""A stream of parts over tries that break: it is sent again from its start."""

from __future__ import annotations

from typing import cast

import pytest
from judged import InternalError, InvalidArgument, TextItem, Unavailable
from judged._batching import parts
from judged._batching.parts import PartStream, text_parts
from judged._transport.call import Attempts, Deadline, Patience
from judged.v1 import statistics_service_pb2 as pb


def stream(items) -> PartStream:
    written = text_parts(["bleu"], items, per_item=False, interval=None)
    return PartStream(written, pb.StreamTextMetricsRequest)


@pytest.mark.parametrize("read", [0, 1, 3, 9])
def test_each_try_sends_all_parts_of_items_that_are_read_once(monkeypatch, read):
    monkeypatch.setattr(parts, "PART_BYTES", 8)
    asked = stream(TextItem(str(n), ["abc"]) for n in range(9))
    assert asked.alone is None
    broken = asked.request()
    for _ in range(read):
        next(broken)
    assert asked.wait_after(Unavailable("gone"), Attempts(Deadline(60), Patience()))
    sent = cast("list[pb.StreamTextMetricsRequest]", list(asked.request()))
    again = [item.hypothesis for message in sent for item in message.part.items]
    assert again == [str(n) for n in range(9)]
    with pytest.raises(InternalError, match="without a reply"):
        asked.ended()
    asked.take(pb.StreamTextMetricsResponse())
    asked.ended()
    assert asked.done


def test_what_can_not_be_written_is_raised_where_one_waits(monkeypatch):
    monkeypatch.setattr(parts, "PART_BYTES", 8)
    asked = stream([*[TextItem("a", ["abc"])] * 3, TextItem("a", ["\ud800"])])
    assert len(list(asked.request())) == 2
    asked.take(pb.StreamTextMetricsResponse())
    attempts = Attempts(Deadline(60), Patience())
    for wait in (asked.ended, lambda: asked.wait_after(Unavailable("gone"), attempts)):
        with pytest.raises(InvalidArgument, match=r"items\[3\]\.references\[0\]"):
            wait()
