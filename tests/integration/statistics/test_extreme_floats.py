"""Numbers at the ends of what a double holds, in every field of statistics and judges.

Each call answers with finite numbers, or refuses a field by its path: never an internal error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest
from google.rpc.status_pb2 import Status
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from judged.v1 import groups_pb2, metrics_pb2, statistics_service_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.fakes.stubs import stub_of_all_calls

SMALL = (0.0, -0.0, 5e-324, 2.3e-308, 1e-300, 1e-16, 0.05, 0.5, 1 - 2**-53, 1.0, 1 + 2**-52)
LARGE = (4.0, 100.0, 1e154, 1e308, 1.7976931348623157e308, -5e-324, -1.0, -1e308)
EXTREME = st.sampled_from([*SMALL, *LARGE, math.inf, -math.inf, math.nan])
FINITE = st.sampled_from([0.0, 5e-324, -5e-324, 1e-300, 1.0, 2.0, 1e99, 1e100, -1e100])
SHARE = st.sampled_from([0.0, 5e-324, 1e-300, 1e-16, 0.3, 0.5, 1 - 2**-53, 1.0])
INSIDE = st.sampled_from([5e-324, 1e-300, 1e-16, 0.3, 0.5 - 2**-54, 1 - 2**-53])
CONFIDENCE = st.sampled_from([0.5, 0.5 + 2**-53, 0.95, 0.9999])


def mostly(usual: st.SearchStrategy[float]) -> st.SearchStrategy[float]:
    """Mostly what a field allows, at the ends of it; now and then whatever a double can be."""
    return st.integers(0, 24).flatmap(lambda roll: usual if roll else EXTREME)


MANY = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
Stub = Any


@pytest.fixture(scope="module")
def stub(server_address: str) -> Iterator[Stub]:
    with grpc.insecure_channel(server_address) as channel:
        yield stub_of_all_calls(channel)


def numbers(message: Message) -> Iterator[tuple[str, float]]:
    """Every double of a message, by its name; no mean of nothing, which is NaN by the contract."""
    of_nothing = getattr(message, "n", None) == 0
    for field, value in message.ListFields():
        if of_nothing and field.name == "mean":
            continue
        if field.type == field.TYPE_DOUBLE:
            for each in value if isinstance(value, (list, tuple)) or field.is_repeated else [value]:
                yield field.full_name, each
        elif field.type == field.TYPE_MESSAGE and not field.GetOptions().deprecated:
            if field.message_type.GetOptions().map_entry:
                continue
            for each in value if field.is_repeated else [value]:
                yield from numbers(each)


def holds(call: Callable[..., Message], request: Message) -> None:
    refusal: Any = None
    try:
        reply = call(request, timeout=30)
    except grpc.RpcError as error:
        refusal = error
    if refusal is not None:
        trailers = dict(refusal.trailing_metadata())
        assert refusal.code() is grpc.StatusCode.INVALID_ARGUMENT, (refusal.details(), request)
        details = Status.FromString(trailers["grpc-status-details-bin"]).details
        assert any(detail.Is(BadRequest.DESCRIPTOR) for detail in details)
        event("refused")
        return
    event("answered")
    odd = {name: value for name, value in numbers(reply) if not math.isfinite(value)}
    assert odd == {}, request


def interval(draw: st.DrawFn) -> metrics_pb2.IntervalOptions:
    made = metrics_pb2.IntervalOptions(
        method=draw(st.sampled_from(metrics_pb2.IntervalMethod.values()[1:])), resamples=100
    )
    if draw(st.booleans()):
        made.confidence = draw(mostly(CONFIDENCE))
    return made


@MANY
@given(data=st.data())
def test_calibrate(stub: Stub, data: st.DataObject):
    draw = data.draw
    scores = draw(st.lists(SHARE, min_size=1, max_size=12))
    scores[0] = draw(mostly(SHARE))
    labels = draw(st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    request = statistics_service_pb2.CalibrateRequest(
        scores=scores, labelled=range(len(scores)), labels=labels, interval=interval(draw)
    )
    for name in ("min_score", "precision_floor", "max_error"):
        if draw(st.booleans()):
            setattr(request, name, draw(mostly(INSIDE)))
    holds(stub.Calibrate, request)


@MANY
@given(data=st.data())
def test_measure_agreement(stub: Stub, data: st.DataObject):
    draw = data.draw
    size = draw(st.integers(2, 6))
    column = st.lists(mostly(FINITE), min_size=size, max_size=size)
    request = statistics_service_pb2.MeasureAgreementRequest(interval=interval(draw))
    request.systems.systems.extend(map(str, range(size)))
    request.systems.first.extend(draw(column))
    request.systems.second.extend(draw(column))
    holds(stub.MeasureAgreement, request)


@MANY
@given(data=st.data())
def test_compare_runs(stub: Stub, data: st.DataObject):
    draw = data.draw
    size = draw(st.integers(2, 6))
    column = st.lists(mostly(FINITE), min_size=size, max_size=size)
    request = statistics_service_pb2.CompareRunsRequest(metrics=["ndcg@10"])
    request.options.interval.CopyFrom(interval(draw))
    request.comparison.permutations = 100
    if draw(st.booleans()):
        request.comparison.difference = abs(draw(mostly(FINITE)))
    for name in ("a", "b", "c"):
        run = request.runs.add(name=name)
        run.values.query_ids.extend(map(str, range(size)))
        run.values.columns.add(values=draw(column))
    holds(stub.CompareRuns, request)


@MANY
@given(data=st.data())
def test_compute_metrics(stub: Stub, data: st.DataObject):
    draw = data.draw
    gains = st.lists(mostly(FINITE), max_size=5)
    positive = st.lists(mostly(st.sampled_from([5e-324, 1.0, 1e99, 1e100])), max_size=3)
    metrics = [
        "ndcg@10",
        "recall@5",
        "ap",
        "context_precision",
        *(f"{name}(p={draw(mostly(INSIDE))!r})@5" for name in ("rbp", "rbp_residual")),
        f"err(max_grade={draw(mostly(st.sampled_from([1, 4, 100])))!r})@5",
    ]
    asked = draw(st.lists(st.sampled_from(metrics), min_size=1, unique=True))
    request = pb.ComputeMetricsRequest(metrics=asked)
    request.options.interval.CopyFrom(interval(draw))
    for number in range(3):
        found = draw(gains)
        all_relevant = [gain for gain in found if gain > 0] + draw(positive)
        request.gains.rankings.add(query_id=str(number), gains=found, relevant_gains=all_relevant)
    holds(stub.ComputeMetrics, request)


@MANY
@given(data=st.data())
def test_text_metric_columns(stub: Stub, data: st.DataObject):
    draw = data.draw
    values = st.lists(mostly(SHARE), min_size=3, max_size=3)
    request = statistics_service_pb2.ComputeTextMetricsRequest(
        metrics=["token_f1"], interval=interval(draw)
    )
    request.values.add(values=draw(values))
    holds(stub.ComputeTextMetrics, request)


@MANY
@given(data=st.data())
def test_judges_take_no_extreme_number_unseen(stub: Stub, data: st.DataObject):
    draw = data.draw
    info = stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=30)
    judge = draw(st.sampled_from([each for each in info.judges if not each.unavailable]))
    spec = groups_pb2.JudgeSpec(kind=judge.kind, profile=judge.profile)
    if draw(st.booleans()):
        spec.min_score = draw(mostly(SHARE))
    for parameter in judge.parameters:
        if parameter.default_value.HasField("double_value") and draw(st.booleans()):
            spec.parameters[parameter.name].double_value = draw(mostly(SHARE))
    request = pb.BatchJudgeRequest(judge=spec)
    request.groups.add(
        query="what is rag", expected=["rag is retrieval"], retrieved=["rag is it", "no"]
    )
    holds(stub.BatchJudge, request)
