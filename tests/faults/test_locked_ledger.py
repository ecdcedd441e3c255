"""Another process holds the budget's file: nothing is answered before what it cost is written."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from judged import Client, QueryGroup, Status, Verdicts
from judged.errors import JudgedError

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import ScriptedProvider
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import ServerProcess, running_server, until

_HOLD = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=60)
db.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "spending.sqlite"


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with provider_on_a_thread() as running:
        yield running


@pytest.fixture
def server(provider: ScriptedProvider, tmp_path: Path, ledger: Path) -> Iterator[ServerProcess]:
    budget = f'[budget]\nper_day = 100\nfile = "{ledger}"'
    config = llm_config(tmp_path, provider, {"m": priced(20.0, 40.0)}, rest=budget)
    with running_server("--llm-config", config, "--llm-cache", "memory") as ready:
        with Client(ready.address) as client:
            ask(client, "first")  # draws an allowance that the others need not draw
        yield ready


@contextmanager
def held(ledger: Path) -> Iterator[None]:
    """Let a process of its own hold the file's lock, as long as the block runs."""
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(ledger)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        yield
        holder.communicate("done\n", timeout=60)


def ask(client: Client, text: str, timeout: float = 60) -> Verdicts:
    return client.judge([QueryGroup("q", ["e"], [text])], "llm", timeout=timeout)


def settled(ledger: Path) -> int:
    with sqlite3.connect(ledger) as db:
        (found,) = db.execute("SELECT SUM(nano) FROM settled").fetchone()
    db.close()
    return int(found)


def test_a_call_waits_until_what_it_cost_is_written(
    server: ServerProcess, provider: ScriptedProvider, ledger: Path
):
    before = settled(ledger)
    with Client(server.address) as client, ThreadPoolExecutor(1) as pool:
        with held(ledger):
            asking = pool.submit(ask, client, "held up")
            until(lambda: len(provider.asked) == 2)
            until(lambda: "spending not written" in server.log_text())
            assert not asking.done()
        found = asking.result()
        assert found.status == [int(Status.OK)]
        assert settled(ledger) - before == round(1e9 * (found.usage.cost or 0))


def test_one_without_the_time_for_it_fails_and_costs_nothing_again(
    server: ServerProcess, provider: ScriptedProvider, ledger: Path
):
    before = settled(ledger)
    with Client(server.address) as client:
        with held(ledger):
            found = ask(client, "too late", timeout=3)
            [error] = found.errors.values()
            assert (error.reason, error.retryable) == ("BUDGET", True)
            assert "send it again, and it costs nothing more" in error.message
            cost = found.usage.cost or 0
            again = ask(client, "too late", timeout=3)
            assert [error.reason for error in again.errors.values()] == ["BUDGET"]
        last = ask(client, "too late")
        assert last.status == [int(Status.OK)]
        assert (last.usage.calls, last.usage.cost, len(provider.asked)) == (0, 0, 2)
        assert settled(ledger) - before == round(1e9 * cost) > 0


def test_a_kill_forgets_nothing_that_was_answered(
    server: ServerProcess, provider: ScriptedProvider, ledger: Path
):
    """At a lock of some seconds answers used to be given, and a kill then forgot them."""
    before, n = settled(ledger), 8

    def spent(number: int) -> float:
        with Client(server.address, max_retries=0) as client:
            try:
                usage = ask(client, f"killed {number}").usage
            except JudgedError:
                return 0.0
            return 0.0 if usage is None else usage.cost or 0.0

    with ThreadPoolExecutor(n) as pool:
        with held(ledger):
            asking = [pool.submit(spent, number) for number in range(n)]
            until(lambda: len(provider.asked) == n + 1)
            until(lambda: "spending not written" in server.log_text())
            server.process.kill()
            answered = sum(each.result() for each in asking)
        assert round(1e9 * answered) <= settled(ledger) - before


def test_a_question_that_needs_money_drawn_waits_too(
    provider: ScriptedProvider, tmp_path: Path, ledger: Path
):
    """The first of a server, whose allowance is not drawn yet."""
    budget = f'[budget]\nper_day = 100\nfile = "{ledger}"'
    config = llm_config(tmp_path, provider, {"m": priced(20.0, 40.0)}, rest=budget)
    with (
        running_server("--llm-config", config) as ready,
        Client(ready.address) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        with held(ledger):
            found = ask(client, "drawn", timeout=2)
            [error] = found.errors.values()
            assert (error.reason, error.retryable, provider.requests) == ("BUDGET", True, 0)
            asking = pool.submit(ask, client, "drawn")
        assert asking.result().status == [int(Status.OK)]
