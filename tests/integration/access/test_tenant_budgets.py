"""Money of tenants: held to by all callers together, through kills, and told by day."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from judged import (
    AnswerItem,
    AsyncClient,
    BudgetExhausted,
    Client,
    InvalidArgument,
    Judge,
    QueryGroup,
)
from judged.credentials import Token
from judged.values import TenantUsage

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.integration.cli_process import run_in
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import ServerProcess, running_server
from tests.integration.tenant_files import new_token

LIMIT = 10.0


@dataclass(frozen=True)
class World:
    folder: Path
    flags: list[str]
    tokens: dict[str, str]

    @property
    def environment(self) -> dict[str, str]:
        return {"XDG_STATE_HOME": str(self.folder)}

    def client(self, server: ServerProcess, tenant: str) -> Client:
        return Client(server.address, credentials=Token(self.tokens[tenant]))

    def settled(self, tenant: str) -> float:
        with sqlite3.connect(self.folder / "judged" / "spending.sqlite") as db:
            query = "SELECT SUM(nano) FROM settled WHERE account = ?"
            (nano,) = db.execute(query, (f"tenant:{tenant}",)).fetchone()
        return (nano or 0) / 1e9

    def usage(self, *options: str) -> str:
        command = [sys.executable, "-m", "judged_server", *self.flags, "tenants", "usage"]
        environment = {**os.environ, **self.environment}
        return subprocess.run(
            [*command, *options], env=environment, capture_output=True, text=True, check=True
        ).stdout


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    path = tmp_path / "t.toml"
    path.write_text(
        f"[tenants.rich]\n[tenants.poor]\nper_day = {LIMIT}\n"
        f"[tenants.monthly]\nper_month = {LIMIT}\n"
    )
    tokens = {name: new_token(path, name) for name in ("rich", "poor", "monthly")}
    with provider_on_a_thread() as provider:
        config = llm_config(tmp_path, provider, {"m": priced(1000.0, 2000.0), "unpriced": ""})
        flags = ["--tenants", str(path), "--llm-config", config, "--llm-cache", "off"]
        yield World(tmp_path, flags, tokens)


def work(number: int) -> list[QueryGroup]:
    return [QueryGroup("q", [f"expected {number}"], [f"retrieved {number} {i}" for i in range(4)])]


def test_sixteen_callers_of_a_tenant_never_overrun_its_budget(world: World):
    with running_server(*world.flags, env=world.environment) as server:

        def ask(number: int) -> float:
            cost = 0.0
            with world.client(server, "poor") as client:
                for step in range(4):
                    with suppress(BudgetExhausted):
                        cost += client.judge(work(100 * number + step), "llm").usage.cost
            return cost

        with ThreadPoolExecutor(16) as pool:
            costs = list(pool.map(ask, range(16)))
        assert 0.5 * LIMIT < sum(costs) <= LIMIT
        with (
            world.client(server, "poor") as client,
            pytest.raises(BudgetExhausted, match="what you may spend a day is used up") as caught,
        ):
            client.judge(work(9999), "llm")
        assert caught.value.metadata["budget"] == "tenant_per_day"
        with world.client(server, "rich") as client:
            rich = client.judge(work(1), "llm").usage.cost
            assert rich > 0
    assert world.settled("poor") == pytest.approx(sum(costs), abs=1e-9 * 64)
    rows = list(csv.DictReader(io.StringIO(world.usage("--csv"))))
    assert {row["tenant"] for row in rows} == {"poor", "rich"}
    by_tenant = {row["tenant"]: row for row in rows}
    assert float(by_tenant["poor"]["cost"]) == pytest.approx(sum(costs), abs=1e-9 * 64)
    assert float(by_tenant["rich"]["cost"]) == pytest.approx(rich, abs=1e-9 * 64)
    assert (by_tenant["rich"]["questions"], by_tenant["rich"]["model"]) == ("4", "m")
    assert by_tenant["rich"]["rubric"] == "retrieval_match"
    assert "rich" in world.usage()
    with sqlite3.connect(world.folder / "judged" / "spending.sqlite") as db:
        for number, model in enumerate(("@cf/model", "\tmodel", "'model")):
            db.execute(
                "INSERT INTO used SELECT ?, tenant, judge, ?, rubric, currency, 1, 1, 1, 1"
                " FROM used LIMIT 1",
                (f"2999-01-0{number + 1}", model),
            )
    shown = [row["model"] for row in csv.DictReader(io.StringIO(world.usage("--csv")))]
    assert {"'@cf/model", "'\tmodel", "''model"} <= set(shown)


def test_a_tenant_is_told_of_its_own_usage_alone(world: World):
    with running_server(*world.flags, env=world.environment) as server:
        with world.client(server, "rich") as client:
            assert client.usage().rows == []
            cost = client.judge(work(1), "llm").usage.cost
        with world.client(server, "poor") as client:
            own = client.judge(work(2), "llm").usage
            item = AnswerItem("i", "question", "an answer", ["expected"])
            own += client.score_answers([item], ["answer_match"]).usage
            usage = client.usage()
            assert (usage.tenant, usage.is_recorded) == ("poor", True)
            rows = {(row.judge, row.rubric): row for row in usage.rows}
            assert set(rows) == {("llm", "retrieval_match"), ("answers", "answer_match")}
            assert {row.model for row in usage.rows} == {"m"}
            assert sum(row.questions for row in usage.rows) == own.calls == 5
            assert sum(row.input_tokens for row in usage.rows) == own.input_tokens
            assert sum(row.cost for row in usage.rows) == pytest.approx(own.cost, abs=1e-8)
            (budget,) = usage.budgets
            assert (budget.budget, budget.limit, budget.currency) == (
                "tenant_per_day",
                LIMIT,
                "USD",
            )
            assert budget.left == pytest.approx(LIMIT - own.cost, abs=1e-8)
            assert timedelta(0) < budget.renewed_at - datetime.now(UTC) <= timedelta(days=1)
            assert not client.usage(1).rows or client.usage(1).rows[0].day == usage.rows[0].day
            with pytest.raises(InvalidArgument, match="days: must be from 0 to 366"):
                client.usage(367)
        told = asyncio.run(usage_on_asyncio(server.address, world.tokens["rich"]))
        assert [(row.judge, row.questions) for row in told.rows] == [("llm", 4)]
        assert told.rows[0].cost == pytest.approx(cost, abs=1e-8)
        assert told.budgets == []
        token_file = world.folder / "poor.token"
        token_file.write_text(world.tokens["poor"])
        options = ["usage", "--target", server.address, "--token-file", str(token_file)]
        shown = run_in(world.folder, *options)
        assert "tenant_per_day" in shown.stdout
        assert "answer_match" in shown.stdout
        document = json.loads(run_in(world.folder, *options, "--json", "-").stdout)
        assert document["tenant"] == "poor"
        assert sum(row["questions"] for row in document["rows"]) == 5
        assert document["budgets"][0]["limit"] == LIMIT
    done = run_in(world.folder, "usage")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--target HOST:PORT, or JUDGED_TARGET" in done.stderr


async def usage_on_asyncio(address: str, token: str) -> TenantUsage:
    async with AsyncClient(address, credentials=Token(token)) as client:
        return await client.usage()


def test_a_month_has_a_budget_too(world: World):
    with (
        running_server(*world.flags, env=world.environment) as server,
        world.client(server, "monthly") as client,
        pytest.raises(BudgetExhausted, match="what you may spend a month is used up"),
    ):
        for number in range(100):
            client.judge(work(number), "llm")
    assert 0 < world.settled("monthly") <= LIMIT


def test_a_model_without_prices_is_not_asked_where_money_has_a_limit(world: World):
    judge = Judge("llm", parameters={"model": "unpriced"})
    with running_server(*world.flags, env=world.environment) as server:
        with world.client(server, "poor") as client:
            errors = client.judge(work(1), judge).errors
            assert {error.reason for error in errors.values()} == {"BUDGET"}
            assert "has no prices on this server" in errors[0].message
        with world.client(server, "rich") as client:
            assert not client.judge(work(1), judge).errors
