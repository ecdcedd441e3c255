"""Thousands of calls at once through the Python client: none is lost, directly or behind a proxy.

The server has room for a fraction of them, and its model waits for a tenth of a second at most.
`benchmarks.faults` has the long run, of 2,000.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged import AsyncClient

from tests.fakes.proxies import PROXIES, missing, proxied
from tests.faults.loads import FLOODED, flood, small_group
from tests.integration.server_process import ServerProcess, running_server

CALLS = 300


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with running_server(*FLOODED) as ready:
        yield ready


@pytest.mark.timeout(400)
def test_none_is_lost(server: ServerProcess):
    assert asyncio.run(flood(server.address, CALLS)) == CALLS


@pytest.mark.timeout(400)
@pytest.mark.parametrize("proxy", PROXIES)
def test_none_is_lost_behind_a_proxy(server: ServerProcess, proxy: str, tmp_path: Path):
    if lacks := missing(proxy):
        pytest.skip(lacks)
    with proxied(proxy, server.address, tmp_path) as address:
        assert asyncio.run(flood(address, CALLS)) == CALLS


@pytest.mark.timeout(400)
def test_a_large_batch_loses_none_beside_a_flood(server: ServerProcess):
    async def both() -> tuple[int, int]:
        async with AsyncClient(server.address) as client:
            groups = [small_group(CALLS + n) for n in range(4 * CALLS)]
            batch = asyncio.create_task(client.judge(groups, "semantic", timeout=300))
            found = await flood(server.address, CALLS)
            return (await batch).n_ok, found

    assert asyncio.run(both()) == (4 * CALLS, CALLS)
