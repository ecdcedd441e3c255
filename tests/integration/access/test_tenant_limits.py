"""The work that a tenant may send in a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from judged import Client, Overloaded, QueryGroup
from judged.credentials import Token
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.integration.server_process import ServerProcess, running_server
from tests.integration.tenant_files import new_token

TENANTS = """
[tenants.slow]
tokens_per_second = 1000
[tenants.free]
"""


@dataclass(frozen=True)
class World:
    server: ServerProcess
    tokens: dict[str, str]

    def client(self, tenant: str) -> Client:
        return Client(self.server.address, credentials=Token(self.tokens[tenant]), max_retries=0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    path = tmp_path / "tenants.toml"
    path.write_text(TENANTS)
    tokens = {name: new_token(path, name) for name in ("slow", "free")}
    with running_server("--tenants", str(path)) as server:
        yield World(server, tokens)


def test_a_tenant_that_sends_more_than_it_may_is_told_when_to_come_back(world: World):
    large = [QueryGroup("q", ["an expected text"], ["word " * 50_000])]
    with world.client("slow") as slow, world.client("free") as free:
        assert slow.judge(large).relevant == [False]
        with pytest.raises(Overloaded, match="you may send 1000 tokens a second") as refused:
            slow.judge(large)
        assert (refused.value.code, refused.value.reason) == ("RESOURCE_EXHAUSTED", "TENANT_LIMIT")
        assert refused.value.metadata["limit"] == "tokens_per_second"
        assert 1 < refused.value.retry_after < 70
        assert slow.server_info().default_judge == "token_overlap"
        assert free.judge(large).relevant == free.judge(large).relevant == [False]


def test_a_stream_is_read_no_faster(world: World):
    group = groups_pb2.QueryGroup(query="q", expected=["a text"], retrieved=["word " * 4_000])
    chunks = [pb.JudgeChunk(chunk_id=number, groups=[group]) for number in range(3)]
    start = pb.StreamJudgeRequest(start=pb.StreamJudgeStart())
    sent = [start, *(pb.StreamJudgeRequest(chunk=chunk) for chunk in chunks)]
    took = {}
    with grpc.insecure_channel(world.server.address) as channel:
        for name, token in world.tokens.items():
            metadata, began = (("authorization", f"Bearer {token}"),), time.monotonic()
            stream = JudgeServiceStub(channel).StreamJudge(
                iter(sent), timeout=60, metadata=metadata
            )
            assert [each.WhichOneof("message") for each in stream].count("chunk") == 3
            took[name] = time.monotonic() - began
    assert took["slow"] > 1 > took["free"]
