"""SIGHUP takes over prices, limits and the log's level; what can't be used changes nothing."""

from __future__ import annotations

import asyncio
import re
import signal
import sqlite3
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pytest
from judged import Client, QueryGroup
from judged.credentials import Token

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked
from tests.integration.server_process import ServerProcess, running_server, until
from tests.integration.tenant_files import new_token

PRICES = (1000.0, 2000.0)

RUBRIC = (
    (resources.files("judged_server.llm.rubrics") / "builtin" / "graded_relevance.toml")
    .read_text()
    .replace('id = "graded_relevance"', 'id = "own"')
)


@dataclass
class World:
    """A server, its file of models, and a provider that holds what it is told to hold."""

    folder: Path
    url: str
    server: ServerProcess
    token: str
    held: threading.Event
    go: threading.Event

    @property
    def models(self) -> Path:
        return self.folder / "llm.toml"

    def client(self) -> Client:
        return Client(self.server.address, credentials=Token(self.token))

    def hang_up(self, says: str, times: int = 1) -> None:
        """Send SIGHUP, and wait until the log has said something so often."""
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: self.server.log_text().count(says) >= times)

    def settled(self) -> int:
        with sqlite3.connect(self.folder / "judged" / "spending.sqlite") as db:
            (nano,) = db.execute(
                "SELECT SUM(nano) FROM settled WHERE account = 'tenant:a'"
            ).fetchone()
        return int(nano)

    def failures(self, what: str) -> float:
        until(lambda: '"ready"' in self.server.log_text())
        (address,) = re.findall(r'"metrics":"([^"]+)"', self.server.log_text())
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as reply:
            text = reply.read().decode()
        (value,) = re.findall(rf'judged_reload_failures_total{{what="{what}"}} (\S+)', text)
        return float(value)


def document(url: str, prices: tuple[float, float] | None = PRICES, rest: str = "") -> str:
    """Return a file of one model, whose own table `rest` follows."""
    priced = "" if prices is None else "input_per_million = {}\noutput_per_million = {}\n"
    return (
        f'providers = [{{ name = "p", base_url = "{url}" }}]\n[[models]]\nname = "m"\n'
        f'provider = "p"\nmodel = "scripted-1"\n{priced.format(*prices or ())}{rest}'
    )


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    held, go = threading.Event(), threading.Event()

    async def script(asked: Asked) -> dict[str, str]:
        if "wait" in asked.user:
            held.set()
            await asyncio.to_thread(go.wait, 60)
        return {"reasoning": "so it is", "verdict": "yes"}

    tenants, settings = tmp_path / "tenants.toml", tmp_path / "judged.toml"
    tenants.write_text("[tenants.a]\nper_day = 1000.0\n")
    settings.write_text("")
    token = new_token(tenants, "a")
    with provider_on_a_thread(script) as provider:
        (tmp_path / "llm.toml").write_text(document(provider.base_url))
        (tmp_path / "rubrics").mkdir()
        (tmp_path / "rubrics" / "own.toml").write_text(RUBRIC)
        flags = ("--config", str(settings), "--tenants", str(tenants), "--llm-cache", "off")
        flags += ("--rubrics-dir", str(tmp_path / "rubrics"))
        models = ("--llm-config", str(tmp_path / "llm.toml"), "--metrics-listen", "127.0.0.1:0")
        state = {"XDG_STATE_HOME": str(tmp_path)}
        with running_server(*flags, *models, env=state) as server:
            yield World(tmp_path, provider.base_url, server, token, held, go)
            go.set()


def ask(world: World, text: str) -> tuple[float, float]:
    """Return what a question cost, and what it would by the prices of the start."""
    with world.client() as client:
        verdicts = client.judge([QueryGroup("q", [text], ["found"])], "llm", timeout=60)
    usage = verdicts.usage
    first = (usage.input_tokens * PRICES[0] + usage.output_tokens * PRICES[1]) / 1e6
    return usage.cost, first


def test_calls_in_work_keep_the_prices_that_they_reserved_by(world: World):
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(ask, world, "wait")
        assert world.held.wait(60)
        world.models.write_text(document(world.url, (3000.0, 6000.0)))
        world.hang_up("reloaded by SIGHUP")
        after = ask(world, "later")
        world.go.set()
        began = before.result()
    assert began[0] == pytest.approx(began[1])
    assert after[0] == pytest.approx(3 * after[1])
    assert world.settled() == round((began[0] + after[0]) * 1e9)
    assert "wait for a restart" not in world.server.log_text()


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("models = [", "is not TOML"),
        ('[[models]]\nname = "m"\nprovider = "q"\nmodel = "x"\n', "names no provider"),
        ("NO PRICES", "has no prices, and would spend what nobody counts"),
        ("EUR", "prices are in USD until a restart"),
    ],
)
def test_a_file_that_cant_be_used_changes_nothing(world: World, bad: str, says: str):
    if bad == "NO PRICES":
        bad = document(world.url, None)
    elif bad == "EUR":
        bad = 'currency = "EUR"\n' + document(world.url, (3000.0, 6000.0))
    world.models.write_text(bad)
    assert world.failures("llm_config") == 0
    world.hang_up("bad llm_config")
    assert says in world.server.log_text()
    assert world.failures("llm_config") == 1
    cost, first = ask(world, "as before")
    assert cost == pytest.approx(first)
    assert world.settled() == round(cost * 1e9)


def test_limits_of_requests_are_taken_over_and_the_rest_waits(world: World):
    limited = document(world.url, rest="logprobs = true\n[budget]\nper_request = 0.001\n")
    world.models.write_text(limited)
    world.hang_up("reloaded by SIGHUP")
    assert "llm_config (all but prices and limits)" in world.server.log_text()
    with world.client() as client:
        (verdict,) = client.judge([QueryGroup("q", ["text"], ["found"])], "llm", timeout=60)
    assert verdict.error is not None
    assert verdict.error.reason == "BUDGET"
    world.models.write_text(document(world.url))
    world.hang_up("reloaded by SIGHUP", times=2)
    cost, first = ask(world, "text")
    assert cost == pytest.approx(first)


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


def test_the_level_of_the_log_is_taken_over(world: World):
    settings = world.folder / "judged.toml"
    settings.write_text('log_level = "warning"\nmax_groups = 3\n')
    world.hang_up("settings wait for a restart")
    with world.client() as client:
        client.judge([QueryGroup("q", ["a"], ["a"])], "exact", timeout=60)
        settings.write_text('log_level = "info"\n')
        world.hang_up("reloaded by SIGHUP")
        client.server_info()
    until(lambda: "GetServerInfo" in world.server.log_text())
    assert "BatchJudge" not in world.server.log_text()
    settings.write_text('log_level = "loud"\n')
    world.hang_up("bad settings")
    until(lambda: world.failures("settings") == 1)
