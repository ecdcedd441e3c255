"""A storm of callers who leave, of two tenants: what one sees of the other's work is nothing.

A spy asks for what another tenant has kept, has under way, and has asked under a request_id. Each
reply is the same, byte for byte, as that for a text that nobody has ever sent. The ordinary run is
short; set JUDGED_TENANT_STORM=20000 for the long one.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import grpc
import pytest
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said
from tests.integration.llm_config import llm_config
from tests.integration.server_process import ServerProcess, running_server
from tests.integration.tenant_files import new_token

if TYPE_CHECKING:  # it is in the stubs alone
    from judged.v1.judge_service_pb2_grpc import JudgeServiceAsyncStub

CALLS = int(os.environ.get("JUDGED_TENANT_STORM", "300"))
CALLERS = 32
TEXTS = 40
"""Fewer than there are calls, so that many are kept, and many shared while they are under way."""
NOT_KEPT = b"the verdict cache has no reply to this"
LONGEST_S = 0.02


async def answer(asked: Asked) -> Said:
    await asyncio.sleep(LONGEST_S * (hash(asked.user) % 16) / 16)
    return {"reasoning": "so it is", "verdict": "yes"}


@dataclass
class World:
    server: ServerProcess
    tokens: dict[str, str]
    rng: Random = field(default_factory=lambda: Random(5))
    ids: list[str] = field(default_factory=lambda: [str(uuid.uuid4()) for _ in range(CALLS)])
    """Of the victim. The spy shows each once, before the victim does, meanwhile, or afterwards."""
    spied: int = 0
    unknown: int = 0

    def metadata(self, tenant: str) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.tokens[tenant]}"),)

    def never_sent(self) -> str:
        self.unknown += 1
        return f"unknown {self.unknown:06}"

    def probe(self, text: str, request_id: str) -> pb.BatchJudgeRequest:
        """Return what asks whether a text is kept, and asks no model."""
        return request(text, request_id, groups_pb2.CACHE_MODE_ONLY)


def request(
    text: str, request_id: str, cache: groups_pb2.CacheMode.ValueType = groups_pb2.CACHE_MODE_USE
) -> pb.BatchJudgeRequest:
    return pb.BatchJudgeRequest(
        groups=[groups_pb2.QueryGroup(query="q", expected=["e"], retrieved=[text])],
        judge=groups_pb2.JudgeSpec(kind="llm"),
        asking=groups_pb2.AskingOptions(cache=cache),
        request_id=request_id,
    )


def kept(number: int) -> str:
    return f"victim  {number % TEXTS:06}"  # as long as one that was never sent


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    path = tmp_path / "tenants.toml"
    path.write_text("[tenants.victim]\n[tenants.spy]\n")
    tokens = {name: new_token(path, name) for name in ("victim", "spy")}
    with provider_on_a_thread(answer) as provider:
        config = llm_config(tmp_path, provider)
        flags = ["--tenants", str(path), "--llm-config", config, "--llm-cache", "memory"]
        environment = {"XDG_STATE_HOME": str(tmp_path)}
        with running_server(*flags, "--log-level", "warning", env=environment) as server:
            yield World(server, tokens)


async def storm(world: World, stub: JudgeServiceAsyncStub) -> tuple[Counter[str], set[bytes]]:
    """Let both tenants call and leave; return how calls ended, and what the spy was told."""
    ended: Counter[str] = Counter()
    told: set[bytes] = set()
    left = CALLS

    async def victim() -> None:
        number = world.rng.randrange(CALLS)
        call = stub.BatchJudge(
            request(kept(number), world.ids[number]), metadata=world.metadata("victim"), timeout=60
        )
        if world.rng.random() < 0.6:
            await asyncio.sleep(world.rng.random() * LONGEST_S)
            call.cancel()
        try:
            await call
        except asyncio.CancelledError:
            ended["cancelled"] += 1
        else:
            ended["answered"] += 1

    async def spy() -> None:
        number, world.spied = world.spied, world.spied + 1
        text = kept(number) if world.rng.random() < 0.5 else world.never_sent()
        ended["kept" if text == kept(number) else "unknown"] += 1
        probe = world.probe(text, world.ids[number])
        told.add(await probed(stub, probe, world.metadata("spy")))

    async def caller() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await (victim() if world.rng.random() < 0.75 else spy())

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return ended, told


async def probed(
    stub: JudgeServiceAsyncStub, probe: pb.BatchJudgeRequest, metadata: tuple[tuple[str, str], ...]
) -> bytes:
    """Return the bytes of the reply, or of the error and its details."""
    try:
        reply = await stub.BatchJudge(probe, metadata=metadata, timeout=60)
    except grpc.aio.AioRpcError as error:
        return f"{error.code()} {error.details()}".encode()
    return reply.SerializeToString(deterministic=True)


@pytest.mark.timeout(900)
async def test_a_tenant_sees_nothing_of_another_in_a_storm_of_cancels(world: World):
    async with grpc.aio.insecure_channel(world.server.address) as channel:
        stub = JudgeServiceStub(channel)
        ended, told = await storm(world, stub)
        assert sum(ended.values()) == CALLS
        assert min(ended["cancelled"], ended["answered"], ended["kept"], ended["unknown"]) > 0
        (unknown,) = told
        assert NOT_KEPT in unknown
        # All of it is kept for the victim by now, or is asked once more; for the spy none is.
        for number in range(TEXTS):
            reply = await stub.BatchJudge(
                request(kept(number), str(uuid.uuid4())),
                metadata=world.metadata("victim"),
                timeout=60,
            )
            assert list(reply.verdicts.relevant) == [True]
            own = world.probe(kept(number), str(uuid.uuid4()))
            assert NOT_KEPT not in await probed(stub, own, world.metadata("victim"))
            spied = world.probe(kept(number), str(uuid.uuid4()))
            assert await probed(stub, spied, world.metadata("spy")) == unknown
