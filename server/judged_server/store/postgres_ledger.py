"""The spending of servers, in the PostgreSQL database that they share; see `store.ledger`.

Leases use the database's clock. Drawing from an account, or settling it, locks its row until the
transaction ends. Each batch has a number, so that a batch is counted once even if the connection
was cut during its commit and it is written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from psycopg import Connection

from judged_server.store.kept_rows import StoreAway
from judged_server.store.ledger import READ_USED, Ledger, LedgerFault, Result, Used
from judged_server.store.postgres import Asked, Worker, command_connection, tell

_NUMBER = """
INSERT INTO judged_writers_1 AS w VALUES (%s, %s)
ON CONFLICT (process) DO UPDATE SET last = EXCLUDED.last WHERE w.last < EXCLUDED.last RETURNING last
"""
_LEAVE = "DELETE FROM judged_writers_1 WHERE process = %s"


def used_since(url: str, since: str) -> list[Used]:
    """Return the usage of all tenants since a day. Raises SettingsError."""
    with command_connection(url) as db:
        return [Used(*row) for row in db.execute(READ_USED, [since, None, None])]


class PostgresLedger(Ledger):
    """A ledger in the database that servers share."""

    def __init__(self, url: str) -> None:
        """Raise SettingsError for a bad address; an unreachable database is retried."""
        super().__init__("the store")
        self._number = 0
        self._numbered: Sequence[object] = ()
        self._worker = Worker("ledger", url, self._do)
        self._worker.start()

    @property
    def is_away(self) -> bool:
        """Whether the database is unreachable now."""
        return self._worker.is_away

    def close(self) -> None:
        """Write the queued entries, and end this process's leases."""
        self._closed = True
        self._worker.close()

    async def _on_thread(self, work: Callable[[], Result]) -> Result:
        try:
            result: Result = await self._worker.ask(work)
        except StoreAway as away:
            raise LedgerFault("the store can't be reached") from away
        return result

    def _do(self, db: Connection, asked: list[Asked]) -> None:
        self._connection = db
        while asked:
            tell([(asked[0].future, asked[0].what())])
            del asked[0]
        if self._worker.is_closing:
            self._end()
            db.execute(_LEAVE, [self._process])

    def _execute(self, statement: str, values: Sequence[object]) -> Iterable[tuple[Any, ...]]:
        done = self._connection.execute(statement, values)
        return done if done.description else ()

    def _transaction(self) -> AbstractContextManager[object]:
        transaction: AbstractContextManager[object] = self._connection.transaction()
        return transaction

    def _begins(self) -> bool:
        if self._numbered is not self._batch:
            self._numbered = self._batch
            self._number += 1
        return any(True for _ in self._execute(_NUMBER, [self._process, self._number]))
