"""`judged batch`: a job of Ray that is killed, that money runs out for, and that is run again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.adapters.conftest import serving
from tests.engines.conftest import N, check

LLM = """
[[providers]]
name = "fake"
dialect = "fake"
replies = "replies.jsonl"
[[models]]
name = "fake"
provider = "fake"
model = "scripted-1"
input_per_million = 1000
output_per_million = 1000
"""


@pytest.fixture
def priced(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "llm.toml").write_text(LLM)
    (tmp_path / "replies.jsonl").write_text(
        '{"reply": {"reasoning": "so it is", "verdict": "yes"}}'
    )
    environ = {"JUDGED_LLM_CONFIG": str(tmp_path / "llm.toml"), "JUDGED_LLM_CACHE": "memory"}
    with serving(tmp_path, environ) as address:
        yield address


class Batch:
    """The command over a table in a folder."""

    def __init__(self, folder: Path, table: Any, target: str, *options: str) -> None:
        self.folder = folder
        pq.write_table(table, folder / "in.parquet")
        words = (
            f"batch in.parquet -o out --id id --expected gold --target {target} --json told.json"
        )
        self.words = [sys.executable, "-m", "judged.cli", *words.split(), *options]

    def start(self, *more: str) -> subprocess.Popen[str]:
        pipe, environ = subprocess.PIPE, {**os.environ, "RAY_ADDRESS": ""}
        return subprocess.Popen(
            [*self.words, *more], cwd=self.folder, stderr=pipe, text=True, env=environ
        )

    def run(self, *more: str) -> tuple[int, str]:
        with self.start(*more) as process:
            _, said = process.communicate()
        return process.returncode, said

    def told(self) -> Any:
        return json.loads((self.folder / "told.json").read_text())

    def n_written(self) -> int:
        return len(list(self.folder.glob("out/*.parquet")))


def test_a_killed_job_is_gone_on_with(target: str, table: Any, tmp_path: Path) -> None:
    blocks = ["--block-rows", "100", "--judge", "token_overlap", "--retrieved", "passage"]
    batch = Batch(tmp_path, table, target, *blocks)
    with batch.start() as process:
        ends = time.monotonic() + 120
        while batch.n_written() < 3 and process.poll() is None:
            assert time.monotonic() < ends
            time.sleep(0.01)
        process.kill()
        kept = batch.n_written()
        process.communicate()
    assert 3 <= kept < N // 100
    status, said = batch.run()
    told = batch.told()
    assert status == 0, (told, said)
    check(pq.read_table(tmp_path / "out"))
    assert (told["rows"], told["missing"]) == (N, 0)
    assert told["statuses"] == {"OK": N - 1, "ERROR": 1}
    batch.words = [word if word != "token_overlap" else "exact" for word in batch.words]
    status, said = batch.run()
    assert status == 2
    assert "has verdicts of token_overlap|" in said
    assert "name another folder" in said


def test_a_folder_is_of_the_same_columns_and_keeps_what_is_not_ours(
    target: str, table: Any, tmp_path: Path
) -> None:
    batch = Batch(
        tmp_path, table.slice(0, 10), target, "--judge", "exact", "--retrieved", "passage"
    )
    assert batch.run()[0] == 0
    notes = tmp_path / "out" / "notes.txt"
    notes.write_text("mine")
    assert batch.run()[0] == 0
    assert notes.read_text() == "mine"
    batch.words[-1] = "query"
    status, said = batch.run()
    assert status == 2
    assert "query, gold, query" in said


def test_what_money_ran_out_for_is_paid_the_next_time_and_once(
    priced: str, table: Any, tmp_path: Path
) -> None:
    given = table.slice(0, 30)
    queries = pa.array([f"q{i}" for i in range(30)])
    given = given.set_column(1, "query", queries)
    batch = Batch(tmp_path, given, priced, "--judge", "llm", "--retrieved", "passage")
    status, said = batch.run("--max-cost", "8")
    first = batch.told()
    assert status == 1
    assert 0 < first["missing"] < 30
    assert first["usage"]["cost"] <= 8
    assert f"{first['missing']} of 30 rows not in out; run it again" in said
    assert batch.run()[0] == 0
    second = batch.told()
    assert second["missing"] == 0
    assert first["usage"]["calls"] + second["usage"]["calls"] == 30


def test_ids_that_tell_no_rows_apart_are_refused(target: str, table: Any, tmp_path: Path) -> None:
    twice = pa.concat_tables([table, table.slice(7, 1)])
    status, said = Batch(tmp_path, twice, target, "--retrieved", "passage").run()
    assert status == 2
    assert f"in.parquet: id: is 7 in rows 7 and {N}; give every row an id of its own" in said
