"""A judge over a dataset of Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import ray
from judged.arrow import Judging

from tests.engines.conftest import check

pytestmark = pytest.mark.usefixtures("cluster")


def test_each_row_has_its_verdict(target: str, table: Any, tmp_path: Path) -> None:
    judging = Judging(target, "token_overlap", expected="gold", retrieved="passage")
    rows = ray.data.from_arrow(table).repartition(target_num_rows_per_block=500)
    rows.map_batches(judging, batch_format="pyarrow", batch_size=500).write_parquet(tmp_path)
    check(pq.read_table(tmp_path))


def test_another_judge_ends_the_job(target: str, table: Any) -> None:
    other = Judging(target, "exact", expected="gold", retrieved="passage", expect="semantic")
    rows = ray.data.from_arrow(table.slice(0, 9))
    with pytest.raises(ray.exceptions.RayTaskError, match="and not the one expected, semantic"):
        rows.map_batches(other, batch_format="pyarrow").materialize()
