"""SIGHUP takes over the log's level; prices and rubrics that changed wait for a restart."""

from __future__ import annotations

import re
import signal
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pytest
from judged import Client, QueryGroup

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked
from tests.integration.server_process import ServerProcess, running_server, until

PRICES = (1000.0, 2000.0)

RUBRIC = (
    (resources.files("judged_server.llm.rubrics") / "builtin" / "graded_relevance.toml")
    .read_text()
    .replace('id = "graded_relevance"', 'id = "own"')
)


@dataclass
class World:
    """A server and its file of models."""

    folder: Path
    url: str
    server: ServerProcess

    @property
    def models(self) -> Path:
        return self.folder / "llm.toml"

    def client(self) -> Client:
        return Client(self.server.address)

    def hang_up(self, says: str, times: int = 1) -> None:
        """Send SIGHUP, and wait until the log has said something so often."""
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: self.server.log_text().count(says) >= times)

    def failures(self, what: str) -> float:
        until(lambda: '"ready"' in self.server.log_text())
        (address,) = re.findall(r'"metrics":"([^"]+)"', self.server.log_text())
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as reply:
            text = reply.read().decode()
        (value,) = re.findall(rf'judged_reload_failures_total{{what="{what}"}} (\S+)', text)
        return float(value)


def document(url: str, prices: tuple[float, float] = PRICES, rest: str = "") -> str:
    """Return a file of one model; `rest` follows its table."""
    return (
        f'providers = [{{ name = "p", base_url = "{url}" }}]\n[[models]]\nname = "m"\n'
        'provider = "p"\nmodel = "scripted-1"\n'
        f"input_per_million = {prices[0]}\noutput_per_million = {prices[1]}\n{rest}"
    )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    async def script(_: Asked) -> dict[str, str]:
        return {"reasoning": "so it is", "verdict": "yes"}

    settings = tmp_path / "judged.toml"
    settings.write_text("")
    with provider_on_a_thread(script) as provider:
        (tmp_path / "llm.toml").write_text(document(provider.base_url))
        (tmp_path / "rubrics").mkdir()
        (tmp_path / "rubrics" / "own.toml").write_text(RUBRIC)
        flags = ("--config", str(settings), "--llm-cache", "off")
        flags += ("--rubrics-dir", str(tmp_path / "rubrics"))
        models = ("--llm-config", str(tmp_path / "llm.toml"), "--metrics-listen", "127.0.0.1:0")
        with running_server(*flags, *models) as server:
            yield World(tmp_path, provider.base_url, server)


def assert_costs_as_at_the_start(world: World) -> None:
    with world.client() as client:
        verdicts = client.judge([QueryGroup("q", ["text"], ["found"])], "llm", timeout=60)
    usage = verdicts.usage
    cost = (usage.input_tokens * PRICES[0] + usage.output_tokens * PRICES[1]) / 1e6
    assert usage.cost == pytest.approx(cost)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("models = [", "is not TOML"),
        ('[[models]]\nname = "m"\nprovider = "q"\nmodel = "x"\n', "names no provider"),
    ],
)
def test_a_file_that_cant_be_used_changes_nothing(world: World, bad: str, says: str):
    world.models.write_text(bad)
    assert world.failures("llm_config") == 0
    world.hang_up("bad llm_config")
    assert says in world.server.log_text()
    assert world.failures("llm_config") == 1
    assert_costs_as_at_the_start(world)


def test_prices_and_limits_that_changed_wait_for_a_restart(world: World):
    world.hang_up("reloaded by SIGHUP")
    assert "llm_config (its file)" not in world.server.log_text()
    limited = document(world.url, (3000.0, 6000.0), "[budget]\nper_request = 0.001\n")
    world.models.write_text(limited)
    world.hang_up("reloaded by SIGHUP", times=2)
    assert '"settings":"llm_config (its file)"' in world.server.log_text()
    assert_costs_as_at_the_start(world)


def test_rubrics_that_changed_wait_for_a_restart(world: World):
    world.hang_up("reloaded by SIGHUP")
    assert "rubrics_dir (its files)" not in world.server.log_text()
    rubric = world.folder / "rubrics" / "own.toml"
    rubric.write_text(RUBRIC.replace("an assessor", "a judge"))
    world.hang_up("reloaded by SIGHUP", times=2)
    assert "settings wait for a restart" in world.server.log_text()
    assert "rubrics_dir (its files)" in world.server.log_text()
    rubric.write_text("id = ")
    world.hang_up("bad rubrics")
    assert world.failures("rubrics") == 1
