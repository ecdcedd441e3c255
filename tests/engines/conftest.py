"""A real server for the tests of engines, and the table that they judge."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.adapters.conftest import target as target  # noqa: PLC0414 - a fixture

N = 3000


@pytest.fixture
def table() -> Any:
    """Rows of which every third is not relevant, and one has no text."""
    passages = ["a b c", "a b", "x"] * (N // 3)
    columns = {"id": list(range(N)), "query": ["q"] * N, "gold": ["a b c"] * N}
    return pa.table({**columns, "passage": [*passages[:-1], None]})


def check(found: Any) -> None:
    """Hold a result against what the table is."""
    assert sorted(found["id"].to_pylist()) == list(range(N))
    rows = {row["id"]: row for row in found.to_pylist()}
    assert [rows[i]["relevant"] for i in range(N - 1)] == ([True, True, False] * (N // 3))[:-1]
    assert rows[N - 1]["status"] == "ERROR"
    assert rows[N - 1]["error"] == "INVALID_FIELD: passage: is null"
