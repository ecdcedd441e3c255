"""A real server for the tests of engines, and the table that they judge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.adapters.conftest import target as target  # noqa: PLC0414 - a fixture

N = 3000
CPUS = 1


@pytest.fixture
def table() -> Any:
    """Rows of which every third is not relevant, and one has no text."""
    passages = ["a b c", "a b", "x"] * (N // 3)
    columns = {"id": list(range(N)), "query": ["q"] * N, "gold": ["a b c"] * N}
    return pa.table({**columns, "passage": [*passages[:-1], None]})


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a cluster of Ray for several jobs: to start one takes longer than most."""
    import ray

    here = ray.init("local", num_cpus=CPUS, include_dashboard=False, log_to_driver=False)
    yield here.address_info["gcs_address"]
    ray.shutdown()


def check(found: Any) -> None:
    """Hold a result against what the table is."""
    assert sorted(found["id"].to_pylist()) == list(range(N))
    rows = {row["id"]: row for row in found.to_pylist()}
    assert [rows[i]["relevant"] for i in range(N - 1)] == ([True, True, False] * (N // 3))[:-1]
    assert rows[N - 1]["status"] == "ERROR"
    assert rows[N - 1]["error"].startswith("INVALID_FIELD: passage: is null")
