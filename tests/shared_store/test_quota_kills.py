"""Four processes spend the same quotas, and are killed 50 times by `kill -9`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tests.fakes.postgres import running_postgres

KILLS = int(os.environ.get("JUDGED_FAULTS_KILLS", "50"))
QUOTA = 2_000

_SPENDER = """
import asyncio, itertools, sys
from random import Random
from judged_server.store.ledger import Account
from judged_server.store.postgres_ledger import PostgresLedger

async def spend():
    rng, ledger = Random(), PostgresLedger(sys.argv[1])
    for n in itertools.count(int(sys.argv[2])):
        account = Account(str(n), "2026-11-28", "USD")
        while drawn := (await ledger.draw(account, int(sys.argv[3]), 17, 0)).amount:
            spent = rng.randrange(drawn + 1)
            print(f"pays {n} {spent}\\n", end="", flush=True)  # in one write
            ledger.settle(account, spent, drawn)
            if await ledger.written(60):
                print(f"wrote {n} {spent}\\n", end="", flush=True)

asyncio.run(spend())
"""


@dataclass
class Spender:
    """A process, and what it said that it paid for, and that this was written."""

    process: subprocess.Popen[str]
    said: list[list[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.spends = threading.Event()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.split())
            self.spends.set()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def sums(self, what: str) -> Counter[str]:
        """Return the amounts by quota."""
        found: Counter[str] = Counter()
        for said, quota, amount in self.said:
            found[quota] += int(amount) * (said == what)
        return found

    @property
    def quota(self) -> int:
        return int(self.said[-1][1]) if self.said else 0


def test_no_kill_loses_a_charge_or_lets_more_be_spent_than_there_is():
    rng = Random(7)
    with running_postgres() as database:

        def begin(quota: int) -> Spender:
            command = [sys.executable, "-c", _SPENDER, database.url, str(quota), str(QUOTA)]
            return Spender(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))

        running = [begin(0) for _ in range(4)]
        ended: list[Spender] = []
        try:
            for _ in range(KILLS):
                victim = running.pop(rng.randrange(4))
                assert victim.spends.wait(60)
                victim.kill()
                ended.append(victim)
                running.append(begin(max(0, victim.quota - 1)))
        finally:
            for each in running:
                each.kill()
        ended += running
        settled = dict(database.run("SELECT account, nano FROM judged_settled_1"))
        leased = dict(
            database.run("SELECT account, sum(nano)::bigint FROM judged_leases_1 GROUP BY account")
        )
    assert settled
    wrote = sum((each.sums("wrote") for each in ended), Counter[str]())
    paid = sum((each.sums("pays") for each in ended), Counter[str]())
    for quota, spent in settled.items():
        # What was in flight as one was killed is reserved still.
        reserved = leased.get(quota, 0)
        assert wrote[quota] <= spent <= paid[quota] <= spent + reserved <= QUOTA
    for each in ended:
        assert (each.sums("pays") - each.sums("wrote")).total() <= 17
