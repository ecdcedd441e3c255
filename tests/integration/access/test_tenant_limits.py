"""What each tenant may have of a busy server: work a second, places at a provider."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from judged import Client, Overloaded, QueryGroup
from judged.credentials import Token

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said
from tests.integration.llm_config import llm_config
from tests.integration.server_process import ServerProcess, running_server, until
from tests.integration.tenant_files import new_token, tenants

TENANTS = """
[tenants.slow]
tokens_per_second = 1000
[tenants.narrow]
provider_slots = 2
[tenants.free]
"""


@dataclass
class Provider:
    """Answers yes, to texts with "held" in them once it is opened; counts those that are there."""

    open: threading.Event = field(default_factory=threading.Event)
    there: int = 0
    most: int = 0

    async def script(self, asked: Asked) -> Said:
        if "held" in asked.user:
            self.there += 1
            self.most = max(self.most, self.there)
            while not self.open.is_set():  # noqa: ASYNC110 - another thread's
                await asyncio.sleep(0.01)
            self.there -= 1
        return {"reasoning": "so it is", "verdict": "yes"}


@dataclass(frozen=True)
class World:
    server: ServerProcess
    provider: Provider
    tokens: dict[str, str]
    path: Path

    def client(self, tenant: str) -> Client:
        return Client(self.server.address, credentials=Token(self.tokens[tenant]), max_retries=0)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    path = tmp_path / "tenants.toml"
    path.write_text(TENANTS)
    tokens = {name: new_token(path, name) for name in ("slow", "narrow", "free")}
    script = Provider()
    with provider_on_a_thread(script.script) as provider:
        config = llm_config(tmp_path, provider)
        flags = ["--tenants", str(path), "--llm-config", config, "--llm-cache", "off"]
        with running_server(*flags, env={"XDG_STATE_HOME": str(tmp_path)}) as server:
            yield World(server, script, tokens, path)
            script.open.set()


def group(text: str, retrieved: int = 1) -> list[QueryGroup]:
    return [
        QueryGroup("q", [f"expected {text}"], [f"retrieved {text} {i}" for i in range(retrieved)])
    ]


def test_a_tenant_that_sends_more_than_it_may_is_told_when_to_come_back(world: World):
    large = [QueryGroup("q", ["an expected text"], ["word " * 50_000])]
    with world.client("slow") as slow, world.client("free") as free:
        assert slow.judge(large).relevant == [False]
        with pytest.raises(Overloaded, match="you may send 1000 tokens a second") as refused:
            slow.judge(large)
        assert (refused.value.code, refused.value.reason) == ("RESOURCE_EXHAUSTED", "TENANT_LIMIT")
        assert refused.value.metadata["limit"] == "tokens_per_second"
        assert refused.value.retry_after is not None
        assert 1 < refused.value.retry_after < 70
        assert slow.server_info().default_judge == "token_overlap"
        assert free.judge(large).relevant == free.judge(large).relevant == [False]
    assert "slow  tokens_per_second: 1000" in tenants(world.path, "list").stdout


def test_a_tenant_has_so_many_questions_at_a_provider_and_others_are_not_held_up(world: World):
    with (
        world.client("narrow") as narrow,
        world.client("free") as free,
        ThreadPoolExecutor(1) as pool,
    ):
        held = pool.submit(narrow.judge, group("held", 6), "llm", timeout=100)
        until(lambda: world.provider.there == 2)
        assert free.judge(group("other", 4), "llm").relevant == [True] * 4
        assert world.provider.there == 2
        world.provider.open.set()
        assert held.result(100).relevant == [True] * 6
    assert world.provider.most == 2


def test_a_limit_that_is_raised_holds_for_the_next_call(world: World):
    large = [QueryGroup("q", ["an expected text"], ["word " * 50_000])]
    with world.client("slow") as slow:
        slow.judge(large)
        with pytest.raises(Overloaded):
            slow.judge(large)
        world.path.write_text(TENANTS.replace("tokens_per_second = 1000", ""))

        def is_let_in() -> bool:
            try:
                return slow.judge(large).relevant == [False]
            except Overloaded:
                return False

        until(is_let_in)
