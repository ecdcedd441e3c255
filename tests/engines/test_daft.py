"""A judge over a data frame of Daft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import daft
import pyarrow as pa
from daft import col
from judged.arrow import Judging

from tests.engines import kills
from tests.engines.conftest import check


def judged(table: Any, judging: Judging) -> Any:
    """Return the verdicts of a table, as the documentation has it."""
    verdict = daft.DataType.from_arrow_type(pa.struct(judging.schema(pa.int64())))

    @daft.func.batch(return_dtype=verdict)
    def judge(ids, query, gold, retrieved):
        columns = {"id": ids, "query": query, "gold": gold, "passage": retrieved}
        batch = pa.table({name: series.to_arrow() for name, series in columns.items()})
        return daft.Series.from_arrow(judging(batch).to_struct_array().combine_chunks())

    found = judge(*(col(name) for name in ("id", "query", "gold", "passage")))
    frame = daft.from_arrow(table).select(found.alias("verdict"))
    return frame.select(col("verdict").unnest()).to_arrow()


def test_each_row_has_its_verdict(target: str, table: Any) -> None:
    judging = Judging(target, "token_overlap", expected="gold", retrieved="passage", every_row=True)
    check(judged(table, judging))


def test_rows_that_nobody_answered_have_no_status(table: Any) -> None:
    nobody = Judging(
        "127.0.0.1:9", "exact", expected="gold", retrieved="passage", timeout=0.5, every_row=True
    )
    found = judged(table.slice(0, 9), nobody)
    assert found["status"].null_count == found.num_rows == 9


JOB = """
import sys
import daft
import pyarrow as pa
from daft import col
from judged.arrow import Judging

judging = Judging(sys.argv[1], "llm", expected="gold", every_row=True)

@daft.func.batch(return_dtype=daft.DataType.from_arrow_type(pa.struct(judging.schema(pa.int64()))))
def judge(ids, query, gold, retrieved):
    columns = {"id": ids, "query": query, "gold": gold, "retrieved": retrieved}
    batch = pa.table({name: series.to_arrow() for name, series in columns.items()})
    return daft.Series.from_arrow(judging(batch).to_struct_array().combine_chunks())

frame = daft.read_parquet("in.parquet")
if parts := sys.argv[2:]:
    frame = frame.join(daft.read_parquet(parts).select("id"), on="id", how="anti")
found = judge(*(col(name) for name in ("id", "query", "gold", "retrieved")))
rows = frame.select(found.alias("verdict")).select(col("verdict").unnest())
rows.where(col("status").not_null()).write_parquet("out")
"""


def test_no_kill_loses_a_row_or_has_one_twice_or_paid_again(tmp_path: Path) -> None:
    def job(address: str) -> list[str]:
        whole = kills.whole_parts(tmp_path)
        for part in {*map(str, tmp_path.glob("out/*.parquet"))} - {*whole}:
            Path(part).unlink()
        return ["-c", JOB, address, *whole]

    assert kills.survive(tmp_path, job, "") == kills.UNHARMED
