"""One real PostgreSQL a module, and what two processes have of it, as `opened` there says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.fakes.postgres import Postgres, running_postgres


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with running_postgres() as running:
        yield running


async def _store(request: pytest.FixtureRequest, database: Postgres) -> AsyncIterator[Any]:
    store = request.module.opened(database)
    yield store
    await asyncio.to_thread(store.close)


a = pytest.fixture(_store)
b = pytest.fixture(_store)
