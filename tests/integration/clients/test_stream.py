from __future__ import annotations

import grpc
import pytest
from judged import Client, InvalidArgument, JudgedError, NotFound, QueryGroup
from judged._convert import read_reason
from judged._transport.call import to_error
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub


def chunk(chunk_id: int, *texts: str) -> pb.StreamJudgeRequest:
    groups = [groups_pb2.QueryGroup(expected=["a"], retrieved=texts)] if texts else []
    return pb.StreamJudgeRequest(chunk=pb.JudgeChunk(chunk_id=chunk_id, groups=groups))


def start(kind: str = "exact") -> pb.StreamJudgeRequest:
    return pb.StreamJudgeRequest(start=pb.StreamJudgeStart(judge=groups_pb2.JudgeSpec(kind=kind)))


def failure(stub: JudgeServiceStub, *messages: pb.StreamJudgeRequest) -> JudgedError:
    with pytest.raises(grpc.RpcError) as caught:
        list(stub.StreamJudge(iter(messages), timeout=20))
    return to_error(caught.value, "here")


def field_of(stub: JudgeServiceStub, *messages: pb.StreamJudgeRequest) -> str | None:
    error = failure(stub, *messages)
    assert isinstance(error, InvalidArgument)
    return error.field


def test_chunks_are_answered_with_their_ids_and_progress(stub: JudgeServiceStub):
    messages = [start(), chunk(7, "a", "b"), chunk(3, "a"), chunk(9, "c", "a", "a")]
    first, *answers = stub.StreamJudge(iter(messages), timeout=20)
    assert first.started.judge.kind == "exact"
    relevant = {a.chunk.chunk_id: list(a.chunk.verdicts.relevant) for a in answers}
    assert relevant == {7: [True, False], 3: [True], 9: [False, True, True]}
    assert answers[-1].chunk.progress.contexts_done == 6
    assert answers[-1].chunk.progress.contexts_received == 6


def test_a_bad_chunk_is_its_own_error_and_the_rest_goes_on(stub: JudgeServiceStub):
    messages = [start(), chunk(1), chunk(2, "a"), chunk(3, "x" * ((1 << 20) + 1)), chunk(4, "b")]
    answers = {
        a.chunk.chunk_id: a.chunk
        for a in stub.StreamJudge(iter(messages), timeout=20)
        if a.WhichOneof("message") == "chunk"
    }
    assert answers[1].error.message.startswith("chunk.groups: ")
    assert answers[3].error.message.startswith("chunk.groups[0].retrieved[0]: ")
    assert read_reason(answers[3].error.reason) == "LIMIT_EXCEEDED"
    assert list(answers[2].verdicts.relevant) == [True]
    assert list(answers[4].verdicts.relevant) == [False]


def test_the_first_message_must_be_a_start(stub: JudgeServiceStub):
    assert field_of(stub, chunk(1, "a")) == "message"
    assert field_of(stub) == "message"
    assert field_of(stub, pb.StreamJudgeRequest()) == "message"


def test_a_chunk_id_is_used_once(stub: JudgeServiceStub):
    assert field_of(stub, start(), chunk(1, "a"), chunk(1, "a")) == "chunk.chunk_id"


def test_an_unknown_judge_ends_the_stream_at_its_start(stub: JudgeServiceStub):
    assert isinstance(failure(stub, start("nobody")), NotFound)
    asking = groups_pb2.AskingOptions(cache=4)
    bad = pb.StreamJudgeRequest(start=pb.StreamJudgeStart(asking=asking))
    assert field_of(stub, bad) == "start.asking.cache"
    bad = pb.StreamJudgeRequest(start=pb.StreamJudgeStart(judge=groups_pb2.JudgeSpec(min_score=2)))
    error = failure(stub, bad)
    assert isinstance(error, InvalidArgument)
    assert error.field == "start.judge.min_score"


def test_garbage_in_the_middle_of_a_stream_is_invalid_argument(server_address: str):
    with grpc.insecure_channel(server_address) as channel:
        call: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            "/judged.v1.JudgeService/StreamJudge"
        )
        with pytest.raises(grpc.RpcError) as caught:
            list(call(iter([start().SerializeToString(), b"\xff\xff"]), timeout=20))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_the_client_has_chunks_answered_in_order(client: Client):
    chunks = [[QueryGroup("q", ["a"], ["a", str(i)])] for i in range(200)]
    answers = list(client.judge_stream(chunks, "exact"))
    assert [answer.chunk_id for answer in answers] == list(range(200))
    assert all(list(answer.verdicts.relevant) == [True, False] for answer in answers)
