"""Many calls at once, over gRPC alone: each waits its turn, and none is turned away."""

from __future__ import annotations

import asyncio
from collections import Counter

import grpc
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub
from judged_server.api.listeners import CALLS_OF_A_CONNECTION, CALLS_TO_BEGIN

REQUEST = pb.BatchJudgeRequest(
    groups=[groups_pb2.QueryGroup(query="q", expected=["a"], retrieved=["a b"])],
    judge=groups_pb2.JudgeSpec(kind="exact"),
)
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


async def outcomes(address: str, connections: int, calls: int) -> Counter[str]:
    """Return how many calls ended with each status: `calls` at once on every connection."""
    counted: Counter[str] = Counter()
    channels = [
        grpc.aio.insecure_channel(address, options=OWN_CONNECTION) for _ in range(connections)
    ]

    async def call(channel: grpc.aio.Channel) -> None:
        try:
            reply = await JudgeServiceStub(channel).BatchJudge(REQUEST, timeout=60)
            counted["OK"] += list(reply.verdicts.relevant) == [False]
        except grpc.aio.AioRpcError as failure:
            counted[failure.code().name] += 1

    try:
        await asyncio.gather(*(call(channel) for channel in channels))  # connects
        counted.clear()
        await asyncio.gather(*(call(channel) for channel in channels for _ in range(calls)))
    finally:
        await asyncio.gather(*(channel.close() for channel in channels))
    return counted


async def test_calls_beyond_what_a_connection_may_have_in_work_wait(server_address: str):
    calls = 8 * CALLS_OF_A_CONNECTION
    assert await outcomes(server_address, 1, calls) == {"OK": calls}


async def test_a_connection_stays_full_as_calls_end(server_address: str):
    # Each reply lets the next call begin, while the server still has to forget the one before.
    for _ in range(5):
        calls = CALLS_OF_A_CONNECTION + 50
        assert await outcomes(server_address, 1, calls) == {"OK": calls}


async def test_many_clients_may_begin_at_once(server_address: str):
    connections = CALLS_TO_BEGIN // CALLS_OF_A_CONNECTION // 2  # none too near to the limit
    calls = connections * CALLS_OF_A_CONNECTION
    done = await outcomes(server_address, connections, CALLS_OF_A_CONNECTION)
    assert done == {"OK": calls}
