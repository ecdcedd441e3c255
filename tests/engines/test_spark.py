"""A judge over a data frame of Spark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from judged.arrow import Judging
from pyspark.sql import SparkSession

from tests.engines import kills
from tests.engines.conftest import check

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None,
    reason="not run: no java (apt-get install openjdk-17-jre-headless)",
)

# For runs of some seconds: this halves the CPU time that Java needs.
os.environ["JAVA_TOOL_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").config(map=settings)
    session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    yield session
    session.stop()


def test_each_row_has_its_verdict_and_those_missing_are_asked_again(
    spark: SparkSession, target: str, table: Any, tmp_path: Path
) -> None:
    given, judged = str(tmp_path / "given.parquet"), str(tmp_path / "judged")
    pq.write_table(table, given)
    frame = spark.read.parquet(given)
    judging = Judging(target, "token_overlap", expected="gold", retrieved="passage")

    def judge(rows: Any) -> None:
        verdicts = rows.mapInArrow(judging, f"id long, {judging.DDL}")
        verdicts.write.mode("append").parquet(judged)

    judge(frame.where("id < 1000"))
    there = spark.read.parquet(judged)
    judge(frame.join(there, "id", "left_anti").select(frame.columns))
    check(pq.read_table(judged))


def test_another_judge_ends_the_job(spark: SparkSession, target: str) -> None:
    frame = spark.createDataFrame(
        [(1, "q", "a", "a")], "id long, query string, gold string, passage string"
    )
    other = Judging(target, "exact", expected="gold", retrieved="passage", expect="semantic")
    with pytest.raises(Exception, match="and not the one expected, semantic"):
        frame.mapInArrow(other, f"id long, {other.DDL}").collect()


JOB = """
import shutil, sys
from judged.arrow import Judging
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2,9]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
# What a killed job left there, the next would add.
shutil.rmtree("out/_temporary", ignore_errors=True)
frame = spark.read.parquet("in.parquet").repartition(8)
if parts := sys.argv[2:]:
    frame = frame.join(spark.read.parquet(*parts), "id", "left_anti").select(frame.columns)
judging = Judging(sys.argv[1], "llm", expected="gold")
verdicts = frame.mapInArrow(judging, f"id long, {judging.DDL}")
verdicts.write.mode("append").parquet("out")
"""


def test_no_kill_loses_a_row_or_has_one_twice_or_paid_again(tmp_path: Path) -> None:
    def job(address: str) -> list[str]:
        return ["-c", JOB, address, *kills.whole_parts(tmp_path)]

    # The driver is a JVM; the Python that it came from ends with it.
    assert kills.survive(tmp_path, job, "java", "pyspark.daemon") == kills.UNHARMED
