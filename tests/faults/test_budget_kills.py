"""A server that is killed again and again while a tenant spends: what its budget knows afterwards.

The ordinary run is short; set JUDGED_FAULTS_KILLS=100 for the long one.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from judged import Asking, CacheMode, Client, QueryGroup
from judged.credentials import Token
from judged.errors import JudgedError
from judged_server.store.ledger import LEASE_S, Account, FileLedger, boot_time

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import ServerProcess, running_server
from tests.integration.tenant_files import new_token

KILLS = int(os.environ.get("JUDGED_FAULTS_KILLS", "4"))
LIMIT = KILLS * 10**8
"""The tenant's budget of the month, in nano-units: less than all that is asked would cost."""
CALLERS, CALLS, QUESTIONS = 4, 3, 4
REFRESH = Asking(CacheMode.REFRESH)


@dataclass
class Round:
    """The calls of callers to one server, until it is killed."""

    kill_after: int
    costs: list[float] = field(default_factory=list)
    calls: int = 0
    enough: threading.Event = field(default_factory=threading.Event)

    def ask(self, server: ServerProcess, token: str, first: int) -> None:
        with Client(server.address, credentials=Token(token), max_retries=0) as client:
            for number in range(first, first + CALLS):
                texts = [f"retrieved {number:06} {i}" for i in range(QUESTIONS)]
                groups = [QueryGroup("q", [f"expected {number:06}"], texts)]
                try:
                    usage = client.judge(groups, "llm", asking=REFRESH, timeout=60).usage
                except JudgedError:  # killed, or the budget is used up for now
                    break
                self.costs.append(usage.cost or 0.0)
                self.calls += usage.calls
                if len(self.costs) >= self.kill_after:
                    self.enough.set()


@pytest.mark.timeout(1200)
def test_kills_lose_no_charge_overrun_nothing_and_leave_no_reservation(tmp_path: Path):
    path, rng = tmp_path / "t.toml", Random(3)
    path.write_text(f"[tenants.poor]\nper_month = {LIMIT / 1e9}\n")
    token = new_token(path, "poor")
    spending = tmp_path / "judged" / "spending.sqlite"

    def read(query: str) -> int:
        with sqlite3.connect(spending) as db:
            (found,) = db.execute(query).fetchone()
        db.close()
        return found or 0

    answered = calls = asked = price = 0
    held: dict[str, int] = {}  # what each server had drawn when it was killed
    with provider_on_a_thread() as provider:
        config = llm_config(tmp_path, provider, {"m": priced(20.0, 40.0)})
        flags = ("--tenants", str(path), "--llm-config", config, "--llm-cache", "off")
        for kill in range(KILLS):
            found = Round(rng.randrange(1, CALLERS * CALLS))
            with (
                running_server(*flags, env={"XDG_STATE_HOME": str(tmp_path)}) as server,
                ThreadPoolExecutor(CALLERS) as pool,
            ):
                first = 100 * kill
                asking = [
                    pool.submit(found.ask, server, token, first + 10 * number)
                    for number in range(CALLERS)
                ]
                while not found.enough.wait(0.01) and not all(each.done() for each in asking):
                    pass
                server.process.kill()
                for each in asking:
                    each.result()
            answered += round(1e9 * sum(found.costs))
            calls += found.calls
            price = price or (answered // calls if calls else 0)
            asked = len(provider.asked)
            with sqlite3.connect(spending) as db:
                held |= dict(db.execute("SELECT process, SUM(nano) FROM leases GROUP BY process"))
            db.close()
            settled = read("SELECT SUM(nano) FROM settled")
            assert answered == calls * price, "questions of one length have one price"
            # What was answered was written down; what was written down, the provider has answered.
            assert answered <= settled <= min(LIMIT, asked * price)
            assert settled % price == 0
            # All that the provider may charge beyond that was reserved when a server was killed.
            assert asked * price - settled <= sum(held.values())
            latest = read("SELECT CAST(MAX(until) AS INTEGER) FROM leases")
            assert latest <= boot_time() + LEASE_S
    assert answered > 0
    left = asyncio.run(left_after_leases(spending))
    print(
        f"{KILLS} kills: {calls} questions answered, {asked} asked; settled "
        f"{settled / 1e9:.6f} of {LIMIT / 1e9:g}, of which answered {answered / 1e9:.6f}"
    )
    assert left == LIMIT - settled


async def left_after_leases(spending: Path) -> int:
    """Return what can be drawn of the budget once the last lease has ended."""
    with sqlite3.connect(spending) as db:
        account = db.execute("SELECT account, period, currency FROM settled").fetchone()
    db.close()
    ledger = FileLedger(spending, lambda: boot_time() + LEASE_S + 1)
    try:
        return (await ledger.draw(Account(*account), LIMIT, LIMIT, 0)).amount
    finally:
        ledger.close()
