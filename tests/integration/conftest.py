from __future__ import annotations

import socket
from collections.abc import Iterator

import grpc
import pytest
from judged import Client
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

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
def nowhere() -> Iterator[str]:
    """An address where nobody listens: the port is bound, so that no other test can get it."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{closed.getsockname()[1]}"


@pytest.fixture
def client(server_address: str) -> Iterator[Client]:
    with Client(server_address) as connected:
        yield connected


@pytest.fixture(scope="module")
def stub(server_address: str) -> Iterator[JudgeServiceStub]:
    with grpc.insecure_channel(server_address) as channel:
        yield JudgeServiceStub(channel)
