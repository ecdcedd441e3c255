from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from judged import Client
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.authority import Authority
from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import ScriptedProvider
from tests.integration.cli_process import Commands
from tests.integration.llm_config import llm_config
from tests.integration.server_process import ServerProcess, running_server
from tests.integration.traced_world import World, filled, running_world


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    """One real server for all tests that do not change it."""
    with running_server() as ready:
        yield ready


@pytest.fixture(scope="session")
def server_address(server: ServerProcess) -> str:
    return server.address


@pytest.fixture(scope="module")
def provider(request: pytest.FixtureRequest) -> Iterator[ScriptedProvider]:
    """A provider that answers by a module's `script`, for its models `PROVIDED` if it has them."""
    with provider_on_a_thread(request.module.script) as running:
        running.models = getattr(request.module, "PROVIDED", running.models)
        yield running


@pytest.fixture(scope="module")
def llm_server(
    request: pytest.FixtureRequest,
    provider: ScriptedProvider,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ServerProcess]:
    """A server with the provider's models that the module's `LLM_MODELS` says, by `LLM_FLAGS`."""
    models = request.module.LLM_MODELS
    config = llm_config(tmp_path_factory.mktemp("llm"), provider, models)
    flags = getattr(request.module, "LLM_FLAGS", ())
    with running_server("--llm-config", config, *flags) as ready:
        yield ready


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest) -> str:
    """The address that a module's tests call: of its own models' server, if it names any."""
    own = "llm_server" if hasattr(request.module, "LLM_MODELS") else "server"
    found: ServerProcess = request.getfixturevalue(own)
    return found.address


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Who signs the certificates of a module."""
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("llm")) as world:
        yield world


@pytest.fixture
def world(shared_world: World, tmp_path: Path) -> World:
    """A server with a scripted model, and a folder of the test with a good file of every kind."""
    return filled(shared_world, tmp_path)


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An address where nobody listens: the port is bound, so that no other test can get it."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{closed.getsockname()[1]}"


@pytest.fixture
def client(target: str) -> Iterator[Client]:
    with Client(target) as connected:
        yield connected


@pytest.fixture
def judged(tmp_path: Path, target: str) -> Commands:
    """Runs `judged` in the folder of the test, against the server of its module."""
    return Commands(tmp_path, target)


@pytest.fixture(scope="module")
def stub(target: str) -> Iterator[JudgeServiceStub]:
    with grpc.insecure_channel(target) as channel:
        yield JudgeServiceStub(channel)
