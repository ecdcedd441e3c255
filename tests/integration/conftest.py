from __future__ import annotations

from collections.abc import Iterator

import pytest
from judged import Client

from tests.integration.server_process import ServerProcess, running_server


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """One real server for all tests that do not change it."""
    with running_server() as ready:
        yield ready


@pytest.fixture(scope="session")
def server_address(server: ServerProcess) -> str:
    return server.address


@pytest.fixture
def client(server_address: str) -> Iterator[Client]:
    with Client(server_address) as connected:
        yield connected
