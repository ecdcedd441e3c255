"""A judge over a data frame of Daft."""

from __future__ import annotations

from typing import Any

import daft
import pyarrow as pa
from daft import col
from judged.arrow import Judging

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
