"""A container of 1 GiB lives through requests of many short values, and serves others meanwhile.

Parsed, these take up to a hundred times their bytes. Six callers send each shape over and over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.faults.loads import LIMIT, MB, limited, resident
from tests.faults.worst_shapes import EXACT, SHAPES, as_json
from tests.integration.http_calls import ask, http_address
from tests.integration.server_process import ServerProcess, running_server

pytestmark = [
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="not run: /proc"),
    pytest.mark.timeout(400),
]

CALLERS, ROUNDS, SMALL_CALLS = 6, 2, 30
OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
SMALL = pb.BatchJudgeRequest(
    judge=EXACT, groups=[groups_pb2.QueryGroup(query="q", expected=["a"], retrieved=["a"])]
)


@asynccontextmanager
async def called_by(call: Callable[[], Awaitable[str]]) -> AsyncIterator[Counter[str]]:
    """Let callers make a call over and over; count how the calls end, until all have made some."""
    counted, over, made = Counter[str](), asyncio.Event(), [0] * CALLERS

    async def caller(number: int) -> None:
        while not over.is_set() or made[number] < ROUNDS:
            counted[await call()] += 1
            made[number] += 1

    callers = [asyncio.create_task(caller(number)) for number in range(CALLERS)]
    yield counted
    over.set()
    await asyncio.gather(*callers)


async def serves_others(server: ServerProcess) -> None:
    """Make small calls of another caller, one after the other."""
    async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
        for _ in range(SMALL_CALLS):
            reply = await JudgeServiceStub(channel).BatchJudge(SMALL, timeout=60)
            assert list(reply.verdicts.relevant) == [True]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_container_lives_through_shapes_that_grow(container: ServerProcess, shape: str):
    method, make = SHAPES[shape]
    raw = make().SerializeToString()

    async def run(server: ServerProcess) -> Counter[str]:
        async def call() -> str:
            async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
                path = f"/judged.v1.JudgeService/{method}"
                try:
                    if method == "ScoreAnswers":
                        stream: Any = channel.unary_stream(path)
                        async for _ in stream(raw, timeout=120):
                            pass
                    else:
                        await channel.unary_unary(path)(raw, timeout=120)
                except grpc.aio.AioRpcError as error:
                    return error.code().name
            return "OK"

        async with called_by(call) as counted:
            await serves_others(server)
        return counted

    counted = asyncio.run(run(container))
    assert container.process.poll() is None
    assert resident(container.process.pid, "VmHWM") < LIMIT / MB * 0.85
    # Empty groups are too many for one message; no model scores answers here.
    expected = {"empty groups": "INVALID_ARGUMENT", "answers": "FAILED_PRECONDITION"}
    assert counted.keys() <= {"RESOURCE_EXHAUSTED", expected.get(shape, "OK")}
    assert counted[expected.get(shape, "OK")], "one at a time is always let in"


def test_and_through_json_of_short_values():
    raw = as_json()

    async def run(server: ServerProcess) -> Counter[str]:
        async def call() -> str:
            reply = await asyncio.to_thread(ask, http_address(server), "/v1/BatchJudge", raw)
            return str(reply.status)

        async with called_by(call) as counted:
            await serves_others(server)
        return counted

    with ExitStack() as stack:
        server = stack.enter_context(running_server("--http-listen", "127.0.0.1:0"))
        with limited(server.process.pid):
            counted = asyncio.run(run(server))
            assert server.process.poll() is None
            assert resident(server.process.pid, "VmHWM") < LIMIT / MB * 0.85
            stack.close()
    assert counted.keys() <= {"200", "429", "504"}
