from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import ScriptedProvider
from tests.integration.llm_config import llm_config, priced
from tests.integration.scoring.scripted_scores import script
from tests.integration.server_process import ServerProcess, running_server


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with provider_on_a_thread(script) as running:
        yield running


@pytest.fixture(scope="module")
def llm_server(
    provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server that keeps replies in memory, with the provider's model as `small`."""
    config = llm_config(tmp_path_factory.mktemp("llm"), provider, {"small": priced(1.0, 2.0)})
    with running_server("--llm-config", config, "--llm-cache", "memory") as ready:
        yield ready


@pytest.fixture(scope="module")
def target(llm_server: ServerProcess) -> str:
    return llm_server.address
