"""One caller with much to do does not hold up another, whatever does the work: a real server each.

What is asserted is order, not time: who is served while the busy caller still has work waiting.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest
from judged import AsyncClient
from judged._transport.async_calls import async_call
from judged._transport.call import Deadline
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said
from tests.integration.llm_config import llm_config
from tests.integration.server_process import ServerProcess, running_server

Call = Callable[[pb.BatchJudgeRequest], Awaitable[int]]

WAIT_S = 120
QUESTIONS = 60
CALLS = 60
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]


async def callers(stack: AsyncExitStack, address: str) -> list[Any]:
    """Return two, each with a connection of its own, over which a call has gone."""
    stubs = []
    for _ in range(2):
        channel = grpc.aio.insecure_channel(address, options=OWN_CONNECTION)
        stub = JudgeServiceStub(await stack.enter_async_context(channel))
        await stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=WAIT_S)
        stubs.append(stub)
    return stubs


def request(judge: str, name: str, contexts: int, times: int = 1) -> pb.BatchJudgeRequest:
    texts = [f"{name} {i} of many " * times for i in range(contexts)]
    group = groups_pb2.QueryGroup(query="q", expected=["one of many"], retrieved=texts)
    return pb.BatchJudgeRequest(judge=groups_pb2.JudgeSpec(kind=judge), groups=[group])


async def test_a_busy_caller_does_not_take_all_places_of_a_provider(tmp_path: Path):
    gate = threading.Event()

    async def held(asked: Asked) -> Said:
        await asyncio.to_thread(gate.wait, WAIT_S)
        return {"reasoning": "so it is", "verdict": "yes"}

    with provider_on_a_thread(held) as provider:
        config = llm_config(tmp_path, provider, provider_lines="max_concurrency = 2")
        with running_server("--llm-config", config, "--llm-cache", "off") as server:
            async with AsyncExitStack() as stack:
                busy, light = await callers(stack, server.address)
                many = busy.BatchJudge(request("llm", "busy", QUESTIONS), timeout=WAIT_S)
                while not provider.asked:
                    await busy.GetServerInfo(pb.GetServerInfoRequest(), timeout=WAIT_S)
                few = light.BatchJudge(request("llm", "light", 2), timeout=WAIT_S)
                for _ in range(20):  # behind it, on the same connection
                    await light.GetServerInfo(pb.GetServerInfoRequest(), timeout=WAIT_S)
                gate.set()
                assert len((await many).verdicts.relevant) == QUESTIONS
                assert len((await few).verdicts.relevant) == 2
        order = ["light" in asked.user for asked in provider.asked]
        assert sum(order) == 2
        assert not any(order[QUESTIONS // 2 :])


# How the busy caller calls, and how the other one does. On a Unix socket gRPC tells a server
# nothing of a connection: our clients do, others by gRPC share a turn.
WAYS = [
    ("grpc by tcp", "grpc by tcp"),
    ("grpc by unix", "client by unix"),
    ("client by unix", "client by unix"),
    ("client by unix", "grpc by unix"),
]


async def caller(stack: AsyncExitStack, server: ServerProcess, way: str) -> Call:
    """Return what makes a call and returns how many verdicts it has, after a first call."""
    client = await stack.enter_async_context(AsyncClient(server.address))
    channel = grpc.aio.insecure_channel(server.address, options=OWN_CONNECTION)
    stub: Any = JudgeServiceStub(await stack.enter_async_context(channel))

    async def by_grpc(asked: pb.BatchJudgeRequest) -> int:
        if way.startswith("grpc"):
            reply = await stub.BatchJudge(asked, timeout=WAIT_S)
        else:
            own = client._connection
            reply = await async_call(own, "BatchJudge", asked, Deadline(WAIT_S))
        return len(reply.verdicts.relevant)

    await by_grpc(request("exact", "first", 1))
    return by_grpc


@pytest.mark.parametrize(("busy_way", "light_way"), WAYS)
async def test_a_busy_caller_does_not_hold_up_lexical_judging(
    busy_way: str, light_way: str, tmp_path: Path
):
    answered: list[str] = []

    async def call(make: Call, name: str, asked: pb.BatchJudgeRequest) -> None:
        assert await make(asked) == len(asked.groups[0].retrieved)
        answered.append(name)

    # Of two slices each: were calls to take turns, all would end before one of three slices does.
    heavy = request("token_overlap", "busy", 1_200, 10)
    small = request("token_overlap", "light", 2_000, 10)
    listen = "127.0.0.1:0" if "tcp" in busy_way else f"unix:{tmp_path}/grpc"
    with running_server(listen=listen) as server:
        async with AsyncExitStack() as stack:
            busy = await caller(stack, server, busy_way)
            light = await caller(stack, server, light_way)
            calls = [asyncio.create_task(call(busy, "busy", heavy)) for _ in range(CALLS)]
            await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            await call(light, "light", small)
            await asyncio.gather(*calls)
    assert answered.index("light") < CALLS
