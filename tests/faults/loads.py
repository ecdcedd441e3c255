"""Loads of the long runs, and what becomes of their calls, for tests and `benchmarks.faults`."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
from judged import AsyncClient, JudgedError, QueryGroup
from judged.credentials import Tls
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.canaries import TEXT
from tests.integration.server_process import ServerProcess

MB = 1_000_000
LIMIT = 1 << 30
"""The memory of a container."""
TOLD_DRAINING = "UNAVAILABLE DRAINING"
FLOODED = ("--vector-cache", "off", "--max-queue-delay-s", "0.1", "--log-level", "warning")
"""Flags of a server that has room for a fraction of a flood."""

_METHOD = "/judged.v1.JudgeService/BatchJudge"
_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
]
_LONG = f"{TEXT} words of a text that is judged at length " * 600
_CGROUPS = Path("/sys/fs/cgroup")


async def drained(server: ServerProcess, calls: int) -> Counter[str]:
    """Return how many calls ended in which way, of a burst in the midst of which SIGTERM comes."""
    counted: Counter[str] = Counter()

    async def call(method: Any, number: int) -> None:
        texts = [f"{number} {i} {_LONG}" for i in range(4)]
        group = groups_pb2.QueryGroup(query="q", expected=texts[:1], retrieved=texts)
        spec = groups_pb2.JudgeSpec(kind="token_overlap")
        try:
            await method(pb.BatchJudgeRequest(groups=[group], judge=spec), timeout=240)
            counted["OK"] += 1
        except grpc.aio.AioRpcError as error:
            details = dict(error.trailing_metadata() or ())
            told = "DRAINING" if "grpc-retry-pushback-ms" in details else error.details()
            counted[f"{error.code().name} {told}"] += 1
        if sum(counted.values()) == 5:
            server.process.send_signal(signal.SIGTERM)

    async with grpc.aio.insecure_channel(server.address) as channel:
        method = JudgeServiceStub(channel).BatchJudge
        await asyncio.gather(*(call(method, number) for number in range(calls)))
    return counted


def small_group(number: int) -> QueryGroup:
    """Return a group of one context, with texts that no other number has."""
    return QueryGroup(TEXT, [f"{TEXT} apple {number}"], [f"{TEXT} pear {number}"])


async def flood(address: str, calls: int, credentials: Tls) -> int:
    """Return how many of so many calls at once have their verdict."""

    async def one(client: AsyncClient, number: int) -> int:
        try:
            return (await client.judge([small_group(number)], "semantic", timeout=300)).n_ok
        except JudgedError as error:
            print(f"lost: {error}")
            return 0

    async with AsyncClient(address, credentials=credentials) as client:
        return sum(await asyncio.gather(*(one(client, number) for number in range(calls))))


def large_request() -> bytes:
    """Return a request of some 15 MB."""
    text = f"{TEXT} some words of a text that is as long as passages are " * 13
    groups = []
    for i in range(1_500):
        retrieved = [f"{i} {n} {text}" for n in range(9)]
        groups.append(
            groups_pb2.QueryGroup(query="q", expected=[f"{i} {text}"], retrieved=retrieved)
        )
    return pb.BatchJudgeRequest(
        judge=groups_pb2.JudgeSpec(kind="exact"), groups=groups
    ).SerializeToString()


async def sent(address: str, body: bytes, calls: int) -> Counter[str]:
    """Return how many calls ended with which code, all sent at once on connections of their own."""
    counted: Counter[str] = Counter()

    async def one() -> None:
        async with grpc.aio.insecure_channel(address, options=_OPTIONS) as channel:
            try:
                await channel.unary_unary(_METHOD)(body, timeout=240)
                counted["OK"] += 1
            except grpc.aio.AioRpcError as error:
                counted[error.code().name] += 1

    await asyncio.gather(*(one() for _ in range(calls)))
    return counted


@contextmanager
def limited(pid: int, limit: int = LIMIT) -> Iterator[bool]:
    """Put a process into a control group with a limit of memory; yield whether one can be made.

    The process must have ended before the `with` does.
    """
    name = f"judged-test-{os.getpid()}"
    group, file = _CGROUPS / name, "memory.max"
    if (_CGROUPS / "memory").is_dir():  # version 1
        group, file = _CGROUPS / "memory" / name, "memory.limit_in_bytes"
    is_limited = False
    with suppress(OSError):
        group.mkdir()
        (group / file).write_text(str(limit))
        (group / "cgroup.procs").write_text(str(pid))
        is_limited = True
    yield is_limited
    ends = time.monotonic() + 10
    while group.is_dir() and time.monotonic() < ends:
        with suppress(OSError):  # busy until the process is gone
            group.rmdir()


def resident(pid: int, field: str = "VmRSS") -> float:
    """Return the resident memory of a process, or the most it ever was (VmHWM), in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith(f"{field}:")]
    return int(line.split()[1]) * 1024 / MB
