"""Measures the cost of a row in Daft, Spark and Ray Data relative to the bare client.

daft, spark, ray    marginal seconds per row, over those of the bare client. Tables of two sizes are
                    judged by token_overlap, read from and written to Parquet; the extra time of the
                    larger one is divided by its extra rows. Start-up of the engine is excluded.

Each runs in its own environment, which `make test-engines` makes; rounds interleave.

    python -m benchmarks.engines [--rows 100000 500000] [--rounds 5]
"""

# ruff: noqa: PLC0415, ANN401 - each environment has only one engine, and none is typed
from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ENGINES = ("daft", "spark", "ray")
BAR = {"daft": 1.0, "spark": 1.3, "ray": 1.8}
BLOCK_ROWS = 2000
WARM_ROWS = 2000
PARTS = 8


def written(folder: Path, n: int) -> str:
    """Write a table of prose, in several files as large tables are, and return its folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    drawn = random.Random(n)
    words = [f"word{i}" for i in range(500)]
    texts = [" ".join(drawn.choices(words, k=20)) for _ in range(1000)]
    ids = range(n)
    columns = {"id": list(ids), "query": [f"question {i}" for i in ids]}
    for name in ("gold", "retrieved"):
        columns[name] = drawn.choices(texts, k=n)
    table = pa.table(columns)
    (folder / str(n)).mkdir()
    for part in range(PARTS):
        rows = table.slice(part * n // PARTS, n // PARTS)
        pq.write_table(rows, folder / str(n) / f"{part}.parquet")
    return str(folder / str(n))


def main() -> None:
    """Run the rounds and print the closing line."""
    from benchmarks.harness import closing_line, ratios, serving

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs=2, default=[100_000, 500_000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    missing = [name for name in ENGINES if not python_of(name).exists()]
    if missing:
        raise SystemExit(f"no environment for {', '.join(missing)}; run: make test-engines")
    seconds: dict[str, list[float]] = {name: [] for name in ("client", *ENGINES)}
    with tempfile.TemporaryDirectory() as name, serving("judged_server") as server:
        tables = [written(Path(name), n) for n in (WARM_ROWS, *options.rows)]
        for number in range(options.rounds):
            for who, taken in seconds.items():
                small, large = _measured(who, server.address, tables)
                taken.append((large - small) / (options.rows[1] - options.rows[0]))
                print(f"{number} {who}: {1e6 * taken[-1]:.1f} us a row", file=sys.stderr)
    found = {name: ratios(seconds[name], seconds["client"]) for name in ENGINES}
    micros = {f"{name}_us": [1e6 * each for each in took] for name, took in seconds.items()}
    print(closing_line("engines", {**found, **micros}, facts={"rows": options.rows, "bar": BAR}))


def python_of(name: str) -> Path:
    """Return the interpreter of an engine's environment; for the bare client, our own."""
    if name == "client":
        return Path(sys.executable)
    return ROOT / ".venv" / "engines" / name / "bin" / "python"


def _measured(who: str, address: str, tables: list[str]) -> list[float]:
    environ = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'client'}",
        "DO_NOT_TRACK": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYSPARK_PYTHON": str(python_of(who)),
    }
    command = [str(python_of(who)), "-m", "benchmarks.engines", "--worker", who, address, *tables]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    taken: list[float] = json.loads(done.stdout.splitlines()[-1])
    return taken


def worker(who: str, address: str, tables: list[str]) -> None:
    """Judge tables and print the seconds of all but the first, which warms up."""
    judge = WORKERS[who](address)
    taken = []
    for table in tables:
        out = f"{table}.{who}"
        began = time.perf_counter()
        judge(table, out)
        taken.append(time.perf_counter() - began)
        shutil.rmtree(out, ignore_errors=True)
    print(json.dumps(taken[1:]))


def _client(address: str) -> Callable[[str, str], object]:
    import pyarrow.parquet as pq
    from judged import Client, QueryGroup

    client = Client(address)

    def judge(table: str, _: str) -> None:
        read = pq.read_table(table, columns=["query", "gold", "retrieved"])
        texts = zip(*(column.to_pylist() for column in read.columns), strict=True)
        groups = [QueryGroup(query, [gold], [found]) for query, gold, found in texts]
        client.judge(groups, "token_overlap")

    return judge


def _judging(address: str, **options: Any) -> Any:
    from judged.arrow import Judging

    return Judging(address, "token_overlap", expected="gold", **options)


def _daft(address: str) -> Callable[[str, str], object]:
    import daft
    import pyarrow as pa

    judging = _judging(address, every_row=True)
    names = ("id", *judging.columns.values())

    def judged(*series: Any) -> Any:
        batch = pa.table({n: each.to_arrow() for n, each in zip(names, series, strict=True)})
        return daft.Series.from_arrow(judging(batch).to_struct_array().combine_chunks())

    verdict = daft.DataType.from_arrow_type(pa.struct(judging.schema(pa.int64())))
    judge = daft.func.batch(return_dtype=verdict)(judged)

    def run(table: str, out: str) -> object:
        found = judge(*map(daft.col, names)).alias("verdict")
        return daft.read_parquet(table).select(found).write_parquet(out)

    return run


def _spark(address: str) -> Callable[[str, str], object]:
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    builder = SparkSession.builder.config(map={**settings, "spark.log.level": "ERROR"})
    spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    judging = _judging(address)

    def run(table: str, out: str) -> object:
        verdicts = spark.read.parquet(table).mapInArrow(judging, f"id long, {judging.DDL}")
        return verdicts.write.parquet(out)

    return run


def _ray(address: str) -> Callable[[str, str], object]:
    import ray

    ray.init("local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False
    judging = _judging(address)

    def run(table: str, out: str) -> object:
        rows = ray.data.read_parquet(table).repartition(target_num_rows_per_block=BLOCK_ROWS)
        verdicts = rows.map_batches(judging, batch_format="pyarrow", batch_size=BLOCK_ROWS)
        return verdicts.write_parquet(out)

    return run


WORKERS = {"client": _client, "daft": _daft, "spark": _spark, "ray": _ray}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        main()
