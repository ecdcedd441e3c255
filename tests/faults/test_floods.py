"""Thousands of calls at once through the Python client: none is lost, directly or behind a proxy.

The server has room for a fraction of them, and its model waits for a tenth of a second at most.
`benchmarks.faults` has the long run, of 2,000.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged.credentials import Tls

from tests.fakes.authority import Authority
from tests.fakes.proxies import PROXIES, behind_proxies, missing, proxied
from tests.faults.loads import FLOODED, flood
from tests.integration.server_process import ServerProcess, running_server

CALLS = 200


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[ServerProcess]:
    with running_server(*FLOODED, *behind_proxies(authority)) as ready:
        yield ready


@pytest.mark.timeout(400)
def test_none_is_lost(server: ServerProcess, authority: Authority):
    assert asyncio.run(flood(server.address, CALLS, Tls(authority.ca))) == CALLS


@pytest.mark.timeout(400)
@pytest.mark.parametrize("proxy", PROXIES)
def test_none_is_lost_behind_a_proxy(
    server: ServerProcess, authority: Authority, proxy: str, tmp_path: Path
):
    if lacks := missing(proxy):
        pytest.skip(lacks)
    with proxied(proxy, (server, server), authority, tmp_path) as address:
        assert asyncio.run(flood(address, CALLS, Tls(authority.ca))) == CALLS
