"""Two servers, called in turn or behind each proxy of deploy/proxies: kill -9 loses no call.

The ordinary run kills once on each path; set JUDGED_FAULTS_KILLS=50 for the long one. For a server
that ends by SIGTERM see tests/integration/clients/test_replicas.py.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from judged import AsyncClient
from judged.credentials import Tls, Token

from tests.fakes.authority import Authority
from tests.fakes.proxies import PATHS, behind_proxies, missing, reached
from tests.faults.loads import small_group
from tests.integration.server_process import ServerProcess, running_server
from tests.integration.tenant_files import new_token

CALLS = 40
KILLS = int(os.environ.get("JUDGED_FAULTS_KILLS", "1"))


@dataclass
class Pair:
    """Two servers, the second of which can be killed and started again in its place."""

    stack: ExitStack
    servers: tuple[ServerProcess, ServerProcess]
    credentials: Tls

    def kill(self) -> None:
        self.servers[1].process.kill()
        self.servers[1].process.wait(20)

    def start_again(self) -> None:
        first, killed = self.servers
        flags = killed.process.args[killed.process.args.index("--port-file") + 2 :]
        again = running_server(*flags, listen=killed.address)
        self.servers = first, self.stack.enter_context(again)


@pytest.fixture(scope="module")
def pair(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("tenants")
    tenants = folder / "tenants.toml"
    tenants.write_text("[tenants.search]\n")
    token = Token(new_token(tenants, "search"))
    credentials = Tls(authority.ca, token=token, name="localhost")
    others = ["--tenants", str(tenants), "--models-dir", str(folder)]
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(running_server(*behind_proxies(authority), *others))
            for _ in range(2)
        )
        yield Pair(stack, (first, second), credentials)


def calls_to(server: ServerProcess) -> int:
    return server.log_text().count("/judged.v1.JudgeService/BatchJudge")


@pytest.mark.timeout(60 + 20 * KILLS)
@pytest.mark.parametrize("path", PATHS)
def test_kill_9_of_one_loses_no_call(pair: Pair, authority: Authority, path: str, tmp_path: Path):
    if lacks := missing(path):
        pytest.skip(lacks)
    with reached(path, pair.servers, authority, tmp_path) as target:
        asyncio.run(killed_in_the_midst(pair, target))


async def killed_in_the_midst(pair: Pair, target: str) -> None:
    """Kill the second server while calls are in work there; it is called once it is back."""

    async def call(number: int) -> int:
        verdicts = await client.judge([small_group(number)], "exact", timeout=60)
        return verdicts.n_ok

    async def caught() -> list[asyncio.Task[int]]:
        """Return calls of which some wait at the second server, which stands still."""
        while True:
            before = calls_to(pair.servers[1])
            while calls_to(pair.servers[1]) == before:
                await call(0)
            pair.servers[1].process.send_signal(signal.SIGSTOP)
            calls = [asyncio.create_task(call(number)) for number in range(CALLS)]
            _, waiting = await asyncio.wait(calls, timeout=0.3)
            if waiting:
                return calls
            # A proxy whose health check was slow had just left it out.
            pair.servers[1].process.send_signal(signal.SIGCONT)

    async with AsyncClient(target, credentials=pair.credentials) as client:
        for _ in range(KILLS):
            calls = await caught()
            pair.kill()
            assert sum(await asyncio.gather(*calls)) == CALLS
            pair.start_again()
            while not calls_to(pair.servers[1]):
                await call(0)
