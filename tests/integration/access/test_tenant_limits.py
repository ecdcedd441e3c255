"""The work that a tenant may send in a second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from judged import Client, Overloaded, QueryGroup
from judged.credentials import Token

from tests.integration.server_process import ServerProcess, running_server
from tests.integration.tenant_files import new_token, tenants

TENANTS = """
[tenants.slow]
tokens_per_second = 1000
[tenants.free]
"""


@dataclass(frozen=True)
class World:
    server: ServerProcess
    tokens: dict[str, str]
    path: Path

    def client(self, tenant: str) -> Client:
        return Client(self.server.address, credentials=Token(self.tokens[tenant]), max_retries=0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    path = tmp_path / "tenants.toml"
    path.write_text(TENANTS)
    tokens = {name: new_token(path, name) for name in ("slow", "free")}
    with running_server("--tenants", str(path)) as server:
        yield World(server, tokens, path)


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
    assert "slow  tokens_per_second: 1000" in tenants(world.path, "list").stdout
