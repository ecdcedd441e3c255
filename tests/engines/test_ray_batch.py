"""`judged batch`: a job of Ray that is killed, that money runs out for, and that is run again."""

from __future__ import annotations

import json
import os
import shutil
import signal
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
from tests.engines import kills
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
        '{"contains": "busy", "error": "RATE_LIMITED"}\n'
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

    def whole_parts(self) -> list[Path]:
        """Return the files that were written to their end, sorted."""
        return [part for part in sorted(self.folder.glob("out/*.parquet")) if _is_whole(part)]


def _is_whole(part: Path) -> bool:
    try:
        return pq.read_metadata(part).num_rows > 0
    except pa.ArrowInvalid:
        return False


def test_a_killed_job_is_gone_on_with(target: str, table: Any, tmp_path: Path) -> None:
    blocks = ["--block-rows", "100", "--judge", "token_overlap", "--retrieved", "passage"]
    batch = Batch(tmp_path, table, target, *blocks)
    with batch.start() as process:
        while batch.n_written() < 3 and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL, said
    whole = batch.whole_parts()
    assert len(whole) < N // 100
    # A file that was cut off, and one that a worker of the killed job wrote while the next began.
    (tmp_path / "out" / "cut.parquet").write_bytes(whole[0].read_bytes()[:-9])
    shutil.copy(whole[0], tmp_path / "out" / "twice.parquet")
    status, said = batch.run()
    told = batch.told()
    assert status == 0, (told, said)
    check(pq.read_table(tmp_path / "out"))
    assert (told["rows"], told["missing"]) == (N, 0)
    assert told["statuses"] == {"OK": N - 1, "ERROR": 1}
    # What was whole is as it was, but for one of the two.
    assert len({*whole, tmp_path / "out" / "twice.parquet"} - {*batch.whole_parts()}) == 1
    batch.words = [word if word != "token_overlap" else "exact" for word in batch.words]
    status, said = batch.run()
    assert status == 2
    assert "has verdicts of token_overlap|" in said
    assert "name another folder" in said


def test_a_folder_is_of_the_same_columns_and_texts_and_keeps_what_is_not_ours(
    target: str, table: Any, tmp_path: Path
) -> None:
    batch = Batch(
        tmp_path, table.slice(0, 10), target, "--judge", "exact", "--retrieved", "passage"
    )
    status, said = batch.run()
    assert status == 0, said
    notes = tmp_path / "out" / "notes.txt"
    notes.write_text("mine")
    longer = table.slice(0, 12)
    pq.write_table(longer, tmp_path / "in.parquet")
    status, said = batch.run()
    assert status == 0, said
    assert batch.told()["statuses"] == {"OK": 12}
    assert len(batch.whole_parts()) == 2
    assert notes.read_text() == "mine"
    theirs = tmp_path / "out" / "theirs.parquet"
    pq.write_table(pa.table({"a": [1]}), theirs)
    status, said = batch.run()
    assert (status, theirs.exists()) == (2, True)
    assert "theirs.parquet: is not of `judged batch`" in said
    shutil.copy(batch.whole_parts()[0], theirs)  # of a killed job's worker: its rows are there
    assert batch.run()[0] == 0
    assert batch.told()["statuses"] == {"OK": 12}
    assert len(batch.whole_parts()) == 2
    edited = longer.set_column(3, "passage", [["another"] * 12])
    pq.write_table(edited, tmp_path / "in.parquet")
    status, said = batch.run()
    assert status == 2
    assert "has other texts than those that its verdict is of" in said
    batch.words[-1] = "query"
    status, said = batch.run()
    assert status == 2
    assert "query, gold, query" in said


def test_what_fails_is_asked_again_while_that_helps(
    priced: str, table: Any, tmp_path: Path
) -> None:
    queries = [f"q{i}" if i % 3 else f"busy {i}" for i in range(30)]
    given = table.slice(0, 30).set_column(1, "query", [queries])
    batch = Batch(tmp_path, given, priced, "--judge", "llm", "--retrieved", "passage")
    status, said = batch.run()
    told = batch.told()
    assert status == 1, said
    assert told["missing"] == sum(told["reasons"].values()) == 10
    assert all(why.startswith("RATE_LIMITED") for why in told["reasons"])
    assert told["statuses"] == {"OK": 20}


def test_what_money_ran_out_for_is_paid_the_next_time_and_once(
    priced: str, table: Any, tmp_path: Path
) -> None:
    given = table.slice(0, 30)
    queries = pa.array([f"q{i}" for i in range(30)])
    given = given.set_column(1, "query", queries)
    batch = Batch(tmp_path, given, priced, "--judge", "llm", "--retrieved", "passage")
    status, said = batch.run("--max-cost", "8")
    first = batch.told()
    assert status == 1, said
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


def test_blocks_that_were_judged_when_it_was_killed_are_kept(tmp_path: Path) -> None:
    with kills.asked(tmp_path, 2000) as (model, address):
        command = [sys.executable, *counted(address)]
        environ = {**os.environ, "RAY_ADDRESS": ""}
        with subprocess.Popen(command, cwd=tmp_path, env=environ) as job:
            model.wait(600, lambda: job.poll() is not None)
            n = model.asked.total()
            job.kill()
    kept = [pq.read_metadata(part).num_rows for part in kills.whole_parts(tmp_path)]
    assert set(kept) == {100}
    assert sum(kept) >= n - 100 * (os.cpu_count() or 1)


def counted(address: str) -> list[str]:
    """Return the words of a job that asks a model."""
    words = "-m judged.cli batch in.parquet -o out --id id --expected gold --block-rows 100"
    return [*words.split(), "--judge", "llm", "--target", address]


def test_no_kill_loses_a_row_or_has_one_twice_or_paid_again(tmp_path: Path) -> None:
    assert kills.survive(tmp_path, counted, "", "ray::") == kills.UNHARMED
