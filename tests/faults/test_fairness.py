"""One caller with much to do does not hold up another, whatever does the work: a real server each.

What is asserted is order, not time: who is served while the busy caller still has work waiting.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said
from tests.integration.llm_config import llm_config
from tests.integration.server_process import running_server

WAIT_S = 120
QUESTIONS = 60
CALLS = 80
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


def request(judge: str, name: str, contexts: int) -> pb.BatchJudgeRequest:
    texts = [f"{name} {i} of many" for i in range(contexts)]
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


async def test_a_busy_caller_does_not_hold_up_lexical_judging():
    answered: list[str] = []

    async def call(stub: Any, name: str, asked: pb.BatchJudgeRequest) -> None:
        reply = await stub.BatchJudge(asked, timeout=WAIT_S)
        assert len(reply.verdicts.relevant) == len(asked.groups[0].retrieved)
        answered.append(name)

    # Of two slices each: were calls to take turns, all would end before one of three slices does.
    heavy = request("token_overlap", "busy", 12_000)
    small = request("token_overlap", "light", 20_000)
    with running_server() as server:
        async with AsyncExitStack() as stack:
            busy, light = await callers(stack, server.address)
            calls = [asyncio.create_task(call(busy, "busy", heavy)) for _ in range(CALLS)]
            await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            await call(light, "light", small)
            await asyncio.gather(*calls)
    assert answered.index("light") < CALLS
