"""What one caller holds for as long as it likes, others do not wait for: real servers.

Small calls are made one after the other, so that each that waited for a second would be seen.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import grpc
import pytest
from judged import Client, QueryGroup
from judged.v1 import groups_pb2, metrics_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.canaries import TEXT
from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said
from tests.faults.loads import resident
from tests.faults.test_connections import HEADERS, PREFACE, SETTINGS, call_headers, frame
from tests.integration.llm_config import llm_config
from tests.integration.server_process import ServerProcess, running_server, until

pytestmark = pytest.mark.timeout(300)

DATA = 0
CALLS, IN_TIME_S = 40, 15.0
"""Calls one after the other, and less than they take where each waits for half a second."""
EXACT = groups_pb2.JudgeSpec(kind="exact")
OPTIONS = [("grpc.use_local_subchannel_pool", 1)]


def stalled_upload(server: ServerProcess, sent: int = 15_000) -> socket.socket:
    """Begin a call of 15 MB, send some of it, and no more."""
    host, _, port = server.address.partition(":")
    opened = socket.create_connection((host, int(port)), timeout=60)
    body = b"\0" + struct.pack(">I", 15_000_000) + b"\0" * (sent - 5)
    opened.sendall(
        PREFACE
        + frame(SETTINGS, 0, 0, b"")
        + frame(HEADERS, 4, 1, call_headers())
        + b"".join(frame(DATA, 0, 1, body[at : at + 16_000]) for at in range(0, sent, 16_000))
    )
    return opened


def serve_in_time(server: ServerProcess, size: int = 10) -> None:
    group = QueryGroup(f"q {TEXT}", ["a"], ["a " * (size // 2)])
    with Client(server.address) as client:
        client.judge([group], "exact", timeout=60)
        began = time.monotonic()
        for _ in range(CALLS):
            assert client.judge([group], "exact", timeout=60).n_ok == 1
        assert time.monotonic() - began < IN_TIME_S


@pytest.mark.parametrize(("uploads", "sent"), [(3, 15_000), (30, 15_000), (30, 100), (300, 60_000)])
def test_stalled_uploads_hold_up_no_small_call(uploads: int, sent: int):
    with running_server("--log-level", "warning") as server, ExitStack() as stack:
        for _ in range(uploads):
            stack.enter_context(closing(stalled_upload(server, sent)))
        serve_in_time(server)
        serve_in_time(server, 50_000)
        # A large one, which takes longer to arrive, is received beside them too.
        large = QueryGroup("q", ["a"], [f"{n} {TEXT}" * 1_000 for n in range(40)])
        with Client(server.address) as client:
            assert client.judge([large], "exact", timeout=60).n_ok == 40


@pytest.mark.parametrize("size", [100, 20_000, 100_000])
def test_calls_that_wait_for_a_provider_leave_room_for_others(tmp_path: Path, size: int):
    gate, many = threading.Event(), 40_000_000 // 200_000

    async def held(_: Asked) -> Said:
        await asyncio.to_thread(gate.wait, 200)
        return {"reasoning": "so it is", "verdict": "yes"}

    def request(judge: str, length: int) -> pb.BatchJudgeRequest:
        group = groups_pb2.QueryGroup(query="q", expected=["a"], retrieved=["a " * (length // 2)])
        return pb.BatchJudgeRequest(judge=groups_pb2.JudgeSpec(kind=judge), groups=[group])

    async def run(server: ServerProcess) -> None:
        async with (
            grpc.aio.insecure_channel(server.address, options=OPTIONS) as busy,
            grpc.aio.insecure_channel(server.address, options=OPTIONS) as light,
        ):
            calls = [
                asyncio.ensure_future(
                    JudgeServiceStub(busy).BatchJudge(request("llm", 200_000), timeout=200)
                )
                for _ in range(many)
            ]
            # As many as may are in work once one was refused.
            await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            for _ in range(30):
                reply = await JudgeServiceStub(light).BatchJudge(request("exact", size), timeout=60)
                assert len(reply.verdicts.relevant) == 1
            gate.set()
            ended = await asyncio.gather(*calls, return_exceptions=True)
        refused = [error for error in ended if isinstance(error, grpc.aio.AioRpcError)]
        assert {error.code().name for error in refused} == {"RESOURCE_EXHAUSTED"}
        assert len(refused) < many, "those let in are answered"

    with provider_on_a_thread(held) as provider:
        config = llm_config(tmp_path, provider)
        flags = ("--llm-config", config, "--llm-cache", "off", "--log-level", "warning")
        with running_server(*flags) as server:
            asyncio.run(run(server))


Stream = tuple[str, list[Any], Callable[[int], Any]]
"""The name of a call, the messages that it begins with, and what makes another."""


def evaluated(make: Callable[[int], list[groups_pb2.QueryGroup]], *keys: str) -> Stream:
    options = metrics_pb2.MetricOptions(slice_by=keys)
    begin = pb.StreamEvaluateStart(judge=EXACT, metrics=["mrr"], options=options)

    def chunk(number: int) -> pb.StreamEvaluateRequest:
        chunk = pb.EvaluateChunk(chunk_id=number, groups=make(number))
        chunk.continues = number > 0 and len(chunk.groups) == 1
        return pb.StreamEvaluateRequest(chunk=chunk)

    return "StreamEvaluate", [pb.StreamEvaluateRequest(start=begin)], chunk


def queries(number: int) -> list[groups_pb2.QueryGroup]:
    """Return groups whose ids, of 1,000 bytes each, are kept to the end."""
    return [
        groups_pb2.QueryGroup(
            query_id=f"{number} {i} ".ljust(1_000, "x"), relevant_document_ids=["a"]
        )
        for i in range(1_000)
    ]


def slices(number: int) -> list[groups_pb2.QueryGroup]:
    return [
        groups_pb2.QueryGroup(
            query_id=f"{number} {i}",
            relevant_document_ids=["a"],
            metadata={"kind": f"{number} {i} ".ljust(1_000, "x")},
        )
        for i in range(1_000)
    ]


def one_group(number: int) -> list[groups_pb2.QueryGroup]:
    """Return more of one group, whose documents must be told apart to the end."""
    names = [f"{number} {i} ".ljust(1_000, "x") for i in range(1_000)]
    group = groups_pb2.QueryGroup(
        query_id="q", retrieved=[""] * 1_000, document_ids=names, relevant_document_ids=["a"]
    )
    return [group]


def one_group_of_texts(number: int) -> list[groups_pb2.QueryGroup]:
    texts = [f"{number} {i} ".ljust(10_000, "x") for i in range(100)]
    names = [f"{i}" for i in range(100)]
    return [
        groups_pb2.QueryGroup(query_id="q", expected=["a"], retrieved=texts, document_ids=names)
    ]


def measured(make: Callable[[int], dict[str, Any]]) -> Stream:
    def part(number: int) -> pb.StreamMetricsRequest:
        return pb.StreamMetricsRequest(
            part=pb.ComputeMetricsRequest(metrics=["mrr"], **make(number))
        )

    return "StreamMetrics", [], part


def rankings(number: int) -> dict[str, Any]:
    """Return rankings whose ids, of 4,000 bytes in memory, are kept to the end."""
    each = [
        metrics_pb2.GainRanking(query_id=f"\U0001f600{number} {i} ".ljust(1_000, "x"), gains=[0])
        for i in range(1_000)
    ]
    return {"gains": metrics_pb2.GainRankings(rankings=each)}


def metadata(number: int) -> dict[str, Any]:
    keys = {f"k{i}": "" for i in range(60)}
    return {
        "metadata": [pb.QueryMetadata(query_id=f"{number} {i}", metadata=keys) for i in range(1000)]
    }


def verdicts(number: int) -> dict[str, Any]:
    """Return verdicts, of which nothing need be kept."""
    shape = metrics_pb2.JudgedRanking(query_id=f"{number}", retrieved=500, expected=500)
    columns = verdicts_pb2.VerdictColumns(relevant=[True] * 250_000, score=[0.5] * 250_000)
    return {"judged": metrics_pb2.JudgedRankings(rankings=[shape], verdicts=columns)}


KEPT = {
    "queries": evaluated(queries),
    "slices": evaluated(slices, "kind"),
    "one group": evaluated(one_group),
    "one group of texts": evaluated(one_group_of_texts),
    "rankings": measured(rankings),
    "metadata": measured(metadata),
    "verdicts": measured(verdicts),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_stream_that_keeps_much_takes_the_room_of_nobody(name: str):
    method, begin, make = KEPT[name]
    kept = name != "verdicts"
    messages = 250 if kept else 60  # of 1 MB and of 2.25 MB: more than may be pending

    async def run(server: ServerProcess) -> None:
        sent = asyncio.Event()

        async def requests() -> AsyncIterator[Any]:
            for message in begin:
                yield message
            for number in range(messages):
                yield make(number)
            sent.set()
            await asyncio.Event().wait()

        async def read(replies: Any) -> None:
            try:
                async for _ in replies:
                    pass
            except grpc.aio.AioRpcError:  # INTERNAL where it was still writing
                sent.set()

        async with grpc.aio.insecure_channel(server.address, options=OPTIONS) as channel:
            stream: Any = getattr(JudgeServiceStub(channel), method)
            ended = asyncio.create_task(read(stream(requests(), timeout=250)))
            await sent.wait()  # whether it has ended or not
            await asyncio.to_thread(serve_in_time, server)
            await asyncio.to_thread(serve_in_time, server, 100_000)
            if not kept:
                ended.cancel()
            await asyncio.wait({ended})

    with running_server("--max-pending-bytes", str(100 << 20)) as server:
        before = resident(server.process.pid)
        asyncio.run(run(server))
        if kept:
            until(lambda: '"RESOURCE_EXHAUSTED"' in server.log_text())
        assert resident(server.process.pid, "VmHWM") < before + 250
