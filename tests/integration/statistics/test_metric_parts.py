"""Rankings that take several messages: their table is that of one message."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import grpc
import pytest
from judged import (
    Client,
    IntervalOptions,
    InvalidArgument,
    JudgedRanking,
    JudgedRankings,
    MetricOptions,
    Status,
)
from judged._batching.metric_parts import Given, Parts
from judged._transport.status import to_error
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

METRICS = ["recall@2", "ndcg@3", "ap"]
OPTIONS = MetricOptions(per_query=True, interval=IntervalOptions(seed=7))


def rankings(missing: float) -> JudgedRankings:
    """Return 40 rankings, of which a share of the verdicts of the second half is missing."""
    draw = random.Random(3)
    shapes = [JudgedRanking(f"q{i}", draw.randrange(3), draw.randrange(5)) for i in range(40)]
    relevant, status = [], []
    for place, shape in enumerate(shapes):
        for _ in range(shape.expected * shape.retrieved):
            lost = place >= 20 and draw.random() < missing
            status.append(int(Status.ERROR if lost else Status.OK))
            relevant.append(not lost and draw.random() < 0.4)
    return JudgedRankings(shapes, relevant, status)


@pytest.fixture
def channel(server_address: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server_address) as connected:
        yield connected


def measured_in_parts(channel: grpc.Channel, given: JudgedRankings, options: MetricOptions):
    def send(request):
        try:
            return JudgeServiceStub(channel).ComputeMetrics(request, timeout=60)
        except grpc.RpcError as error:
            raise to_error(error, "here") from None

    parts = Parts(METRICS, Given(given, {}), options, part_bytes=3)
    sent = 0
    for part, request in parts.requests():
        try:
            reply = send(request)
        except InvalidArgument as error:
            reply = error
        parts.take(part, reply)
        sent += 1
    assert sent > 5
    _, request = parts.whole()
    return parts.table(send(request))


@pytest.mark.parametrize("missing", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("options", [OPTIONS, MetricOptions()])
def test_parts_of_verdicts_give_the_table_of_the_whole(
    client: Client, channel: grpc.Channel, missing: float, options: MetricOptions
):
    given = rankings(missing)
    whole = client.compute_metrics(METRICS, given, options)
    merged = measured_in_parts(channel, given, options)
    assert merged.counts == whole.counts
    assert merged.query_ids == whole.query_ids
    for one, other in zip(merged, whole, strict=True):
        assert (one.name, one.n, one.mean) == (other.name, other.n, other.mean)
        assert list(one.per_query) == list(other.per_query)
        assert one.interval == other.interval
        assert one.signature == other.signature
        if missing:
            assert one.lower_bound == pytest.approx(other.lower_bound, rel=1e-12)
            assert one.upper_bound == pytest.approx(other.upper_bound, rel=1e-12)
        else:
            assert one.lower_bound is one.upper_bound is other.lower_bound is None


def test_what_is_wrong_is_named_by_its_place_in_the_whole(channel: grpc.Channel):
    given = rankings(0.0)
    score = [0.5] * len(given.relevant)
    score[-1] = 2.0
    with pytest.raises(InvalidArgument) as caught:
        measured_in_parts(channel, replace(given, score=score), MetricOptions())
    assert caught.value.field == f"judged.verdicts.score[{len(score) - 1}]"
