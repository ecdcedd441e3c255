"""Three servers that share one PostgreSQL: what is paid for, and what is answered without it."""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import signal
import time
import urllib.request
from argparse import Namespace
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path

import pytest
from judged import Asking, CacheMode, Client, Judge, QueryGroup, Source, Status, Verdicts
from judged.errors import BudgetExhausted, JudgedError
from judged_server.commands.cache import manage_cache
from judged_server.settings import load

from tests.fakes.postgres import Postgres, running_postgres
from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said, ScriptedProvider
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import ServerProcess, running_server, until

QUESTIONS, SERVERS = 300, 3
_TEXT = re.compile(r"text \d+ \w+")


def is_yes(text: str) -> bool:
    """Return what is right of a text, so that a reply to another one shows."""
    return hashlib.sha256(text.encode()).digest()[0] % 2 == 0


class Provider:
    """Answers each text by its own verdict, after a while."""

    def __init__(self) -> None:
        self.delay_s = 0.02
        self.asked: list[str] = []

    async def script(self, asked: Asked) -> Said:
        [text] = set(_TEXT.findall(asked.user))
        self.asked.append(text)
        await asyncio.sleep(self.delay_s)
        return {"reasoning": "so it is", "verdict": "yes" if is_yes(text) else "no"}


@pytest.fixture
def script() -> Provider:
    return Provider()


@pytest.fixture
def provider(script: Provider) -> Iterator[ScriptedProvider]:
    with provider_on_a_thread(script.script) as running:
        yield running


@contextmanager
def servers(
    database: Postgres,
    provider: ScriptedProvider,
    folder: Path,
    count: int = SERVERS,
    per_day: float | None = None,
) -> Iterator[list[ServerProcess]]:
    """Servers with a model that costs money and one, `free`, that does not but with a budget."""
    rest = "" if per_day is None else f"[budget]\nper_day = {per_day}"
    free = "" if per_day is None else priced(0.0, 0.0)
    config = llm_config(folder, provider, {"m": priced(20.0, 40.0), "free": free}, rest=rest)
    flags = ("--llm-config", config, "--metrics-listen", "127.0.0.1:0")
    with ExitStack() as stack:
        env = {"JUDGED_STORE": database.url}
        yield [stack.enter_context(running_server(*flags, env=env)) for _ in range(count)]


def ask(server: ServerProcess, texts: list[str], model: str = "m", **options) -> Verdicts:
    with Client(server.address, max_retries=0) as client:
        groups = [QueryGroup("q", ["e"], texts)]
        return client.judge(
            groups, Judge("llm", parameters={"model": model}), timeout=60, **options
        )


def right(found: Verdicts, texts: list[str]) -> bool:
    return [verdict.relevant for verdict in found] == [is_yes(text) for text in texts]


def reachable(server: ServerProcess) -> bool:
    until(lambda: '"metrics":"' in server.log_text())
    address = re.search(r'"metrics":"([^"]+)"', server.log_text())[1]
    with urllib.request.urlopen(f"http://{address}/readyz", timeout=10) as reply:
        assert reply.status == 200
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
        return "judged_store_reachable 1.0" in reply.read().decode()


def cache(database: Postgres, action: str) -> str:
    """Return what a command says of the stored replies."""
    settings = load({"store": database.url})
    with redirect_stdout(io.StringIO()) as said:
        assert manage_cache(Namespace(action=action), settings) == 0
    return said.getvalue()


def test_equal_questions_to_three_servers_are_paid_once_but_for_those_of_one_that_is_killed(
    provider: ScriptedProvider, script: Provider, tmp_path: Path
):
    texts = [f"text {n} once" for n in range(QUESTIONS)]
    with (
        running_postgres() as database,
        servers(database, provider, tmp_path) as running,
        ThreadPoolExecutor(SERVERS) as pool,
    ):
        found = list(pool.map(lambda server: ask(server, texts), running))
        assert all(right(each, texts) for each in found)
        assert sorted(script.asked) == sorted(texts)
        assert sum(each.usage.calls for each in found) == QUESTIONS
        assert sum(each.usage.shared + each.usage.cached for each in found) == 2 * QUESTIONS
        assert any(Source.SHARED in each.source for each in found)
        again = ask(running[0], texts, asking=Asking(CacheMode.ONLY))
        assert right(again, texts)
        assert len(script.asked) == QUESTIONS
        assert cache(database, "show").startswith(f"{QUESTIONS} replies, ")
        anew = ask(running[1], texts[:3], asking=Asking(CacheMode.REFRESH))
        assert (right(anew, texts[:3]), anew.usage.calls) == (True, 3)
        assert cache(database, "purge").startswith(f"{QUESTIONS} replies deleted from the store")
        assert cache(database, "show").startswith("0 replies, ")
        kill_one(running, pool, database, script)


def kill_one(
    running: list[ServerProcess], pool: ThreadPoolExecutor, database: Postgres, script: Provider
) -> None:
    """Kill one of the servers while all ask the same: another one asks what it was asking."""
    script.asked.clear()
    script.delay_s = 0.1
    texts = [f"text {n} killed" for n in range(QUESTIONS)]

    def asked_of(server: ServerProcess) -> Verdicts | None:
        try:
            return ask(server, texts)
        except JudgedError:
            return None

    asking = [pool.submit(asked_of, server) for server in running]
    until(lambda: len(script.asked) >= QUESTIONS // 3)
    process = "(SELECT process FROM judged_replies_2 WHERE payload = '' LIMIT 1)"
    assert database.run(f"SELECT {process}")[0][0]
    running[0].process.kill()
    killed = time.monotonic()
    found = [each.result() for each in asking][1:]
    assert time.monotonic() - killed < 6 + 1 + 3
    assert all(right(each, texts) for each in found)
    in_flight = len(script.asked) - QUESTIONS
    assert 0 <= in_flight <= QUESTIONS // 3
    paid = sum(each.usage.calls for each in found)
    assert paid < len(script.asked) <= QUESTIONS + in_flight


def test_without_the_store_nothing_is_paid_for_and_what_is_free_goes_on(
    provider: ScriptedProvider, script: Provider, tmp_path: Path
):
    with (
        running_postgres(started=False) as database,
        servers(database, provider, tmp_path, 1) as [server],
    ):
        until(lambda: "store unreachable" in server.log_text())
        assert not reachable(server)
        found = ask(server, ["text 1 away"])
        [error] = found.errors.values()
        assert (error.reason, error.code, error.retryable) == ("STORE_UNREACHABLE", 14, True)
        refreshed = ask(server, ["text 1 away"], asking=Asking(CacheMode.REFRESH))
        only = ask(server, ["text 1 away"], asking=Asking(CacheMode.ONLY))
        for each in (refreshed, only):
            assert [error.reason for error in each.errors.values()] == ["STORE_UNREACHABLE"]
        assert script.asked == []
        assert right(ask(server, ["text 2 away"], "free"), ["text 2 away"])
        database.start()
        database.wait()
        until(lambda: reachable(server), 2)
        texts = [f"text {n} back" for n in range(40)]
        assert right(ask(server, texts), texts)
        # Killed and started again under load: whatever is answered is right, and paid once.
        script.delay_s = 0.05
        with ThreadPoolExecutor(1) as pool:
            texts = [f"text {n} load" for n in range(600)]
            asking = pool.submit(ask, server, texts)
            until(lambda: "text 100 load" in script.asked)
            database.kill()
            database.start()
            database.wait()
            found = asking.result()
        missing = {error.reason for error in found.errors.values()}
        assert missing <= {"STORE_UNREACHABLE"}
        for verdict, text in zip(found, texts, strict=True):
            assert verdict.status is Status.ERROR or verdict.relevant == is_yes(text)
        until(lambda: reachable(server), 5)
        again = ask(server, texts)
        assert right(again, texts)
        assert len(set(script.asked)) == len(script.asked)
        assert server.log_text().count('"store unreachable"') <= 2 * 2


def killed(database: Postgres) -> None:
    database.kill()
    database.start()


def restarted(database: Postgres) -> None:
    assert database.process is not None
    database.process.send_signal(signal.SIGINT)  # a fast shutdown
    database.process.wait()
    database.start()


def paused(database: Postgres) -> None:
    with database.paused():
        time.sleep(1)  # what it stands for


@pytest.mark.parametrize("fails", [killed, restarted, paused])
def test_servers_spend_a_budget_together_no_more_and_nothing_unwritten(
    provider: ScriptedProvider,
    script: Provider,
    tmp_path: Path,
    fails: Callable[[Postgres], None],
):
    """Whatever the store does under load; and it is used again 2 s after it is back."""
    script.delay_s = 0.05
    limit = 2 * 10**9

    def answered(server: ServerProcess, place: int) -> float:
        """Ask until the budget is used up; return what the answers cost."""
        cost = 0.0
        for call in range(100):
            texts = [f"text {n} of{place}and{call}" for n in range(8)]
            try:
                found = ask(server, texts)
            except BudgetExhausted:
                break
            reasons = {error.reason for error in found.errors.values()}
            assert reasons <= {"STORE_UNREACHABLE", "BUDGET"}
            for verdict, text in zip(found, texts, strict=True):
                assert verdict.status is Status.ERROR or verdict.relevant == is_yes(text)
            cost += found.usage.cost or 0.0
        return cost

    with running_postgres() as database:
        with (
            servers(database, provider, tmp_path, 2, per_day=limit / 1e9) as running,
            ThreadPoolExecutor(2) as pool,
        ):
            asking = [pool.submit(answered, *each) for each in zip(running, range(2), strict=True)]
            until(lambda: len(script.asked) > 60)
            fails(database)
            database.wait()
            until(lambda: all(map(reachable, running)), 2)
            cost = sum(each.result() for each in asking)
            noted = all(each.log_text().count('"store unreachable"') <= 3 for each in running)
        [(spent,)] = database.run("SELECT sum(nano)::bigint FROM judged_settled_1")
        [(used,)] = database.run("SELECT sum(nano)::bigint FROM judged_used_1")
    tokens = [(len(asked.system + asked.user) // 4 + 1, 11) for asked in provider.asked]
    charged = sum(20_000 * put_in + 40_000 * put_out for put_in, put_out in tokens)
    assert round(1e9 * cost) <= spent == used == charged <= limit
    assert spent > limit / 2
    assert noted
