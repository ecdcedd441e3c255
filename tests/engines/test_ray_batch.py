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
from tests.engines.conftest import CPUS, N, check

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
    """The command over a table in a folder, on a cluster."""

    def __init__(self, cluster: str, folder: Path, table: Any, target: str, *options: str) -> None:
        self.cluster, self.folder = cluster, folder
        pq.write_table(table, folder / "in.parquet")
        words = (
            f"batch in.parquet -o out --id id --expected gold --target {target} --json told.json"
        )
        self.words = [sys.executable, "-m", "judged.cli", *words.split(), *options]

    def start(self, *more: str) -> subprocess.Popen[str]:
        pipe, environ = subprocess.PIPE, {**os.environ, "RAY_ADDRESS": self.cluster}
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


def test_a_killed_job_is_gone_on_with_and_what_was_added_is_judged(
    cluster: str, target: str, table: Any, tmp_path: Path
) -> None:
    options = ["--block-rows", "300", "--judge", "token_overlap", "--retrieved", "passage"]
    batch = Batch(cluster, tmp_path, table.slice(0, N - 9), target, *options)
    with batch.start() as process:
        while batch.n_written() < 3 and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        _, said = process.communicate()
    assert process.returncode == -signal.SIGKILL, said
    whole = kills.whole_parts(tmp_path)
    assert len(whole) < N // 300
    # A file that was cut off, and one that a worker of the killed job wrote while the next began.
    first, cut, twice = (tmp_path / "out" / f"{name}.parquet" for name in ("a", "cut", "twice"))
    Path(whole[0]).rename(first)
    cut.write_bytes(first.read_bytes()[:-9])
    shutil.copy(first, twice)
    pq.write_table(table, tmp_path / "in.parquet")
    status, said = batch.run()
    told = batch.told()
    assert status == 0, (told, said)
    check(pq.read_table(tmp_path / "out"))
    assert (told["rows"], told["missing"]) == (N, 0)
    assert told["statuses"] == {"OK": N - 1, "ERROR": 1}
    # What was whole is as it was.
    assert {f"{first}", *whole[1:]} < {*kills.whole_parts(tmp_path)}
    assert {cut, twice}.isdisjoint(tmp_path.glob("out/*"))
    edited = table.set_column(3, "passage", [["another"] * N])
    pq.write_table(edited, tmp_path / "in.parquet")
    status, said = batch.run()
    assert status == 2
    assert " has other texts than those that its verdict is of; name another folder" in said
    assert "Traceback" not in said
    batch.words = [word if word != "token_overlap" else "exact" for word in batch.words]
    status, said = batch.run()
    assert status == 2
    assert 'has verdicts of {"judge": "token_overlap|' in said
    assert "name another folder" in said


def test_what_is_missing_is_asked_the_next_time_and_paid_once(
    cluster: str, priced: str, table: Any, tmp_path: Path
) -> None:
    queries = [f"q{i}" if i % 3 else f"busy {i}" for i in range(30)]
    given = table.slice(0, 30).set_column(1, "query", [queries])
    batch = Batch(cluster, tmp_path, given, priced, "--judge", "llm", "--retrieved", "passage")
    status, said = batch.run("--max-cost", "8")
    first = batch.told()
    assert status == 1, said
    assert 0 < first["statuses"]["OK"] < 20
    assert first["missing"] == 30 - first["statuses"]["OK"]
    assert first["usage"]["cost"] <= 8
    assert f"{first['missing']} of 30 rows not in out; run it again" in said
    status, said = batch.run()
    second = batch.told()
    assert status == 1, said
    assert second["statuses"] == {"OK": 20}
    assert second["missing"] == sum(second["reasons"].values()) == 10
    assert all(why.startswith("RATE_LIMITED") for why in second["reasons"])
    assert first["usage"]["calls"] + second["usage"]["calls"] == 20


def test_ids_that_tell_no_rows_apart_are_refused(target: str, table: Any, tmp_path: Path) -> None:
    twice = pa.concat_tables([table, table.slice(7, 1)])
    status, said = Batch("", tmp_path, twice, target, "--retrieved", "passage").run()
    assert status == 2
    assert f"in.parquet: id: is 7 in rows 7 and {N}; give every row an id of its own" in said


def test_verdicts_are_not_written_into_the_table(target: str, table: Any, tmp_path: Path) -> None:
    batch = Batch("", tmp_path, table, target)
    batch.words[batch.words.index("out")] = "./in.parquet/out"
    status, said = batch.run()
    assert (status, "is in TABLE; name a folder elsewhere" in said) == (2, True), said


def test_blocks_that_were_judged_when_it_was_killed_are_kept(cluster: str, tmp_path: Path) -> None:
    with kills.asked(tmp_path, 3000) as (model, address):
        command = [sys.executable, *counted(address, 500)]
        environ = {**os.environ, "RAY_ADDRESS": cluster}
        with subprocess.Popen(command, cwd=tmp_path, env=environ) as job:
            model.wait(900, lambda: job.poll() is not None)
            n = model.asked.total()
            job.kill()
        kept = [pq.read_metadata(part).num_rows for part in kills.whole_parts(tmp_path)]
    assert set(kept) == {500}
    assert sum(kept) >= n - 500 * CPUS


def counted(address: str, block_rows: int = 100) -> list[str]:
    """Return the words of a job that asks a model."""
    words = "-m judged.cli batch in.parquet -o out --id id --expected gold --judge llm"
    return [*words.split(), "--block-rows", f"{block_rows}", "--target", address]


def test_no_kill_loses_a_row_or_has_one_twice_or_paid_again(tmp_path: Path) -> None:
    assert kills.survive(tmp_path, counted, "", "ray::") == kills.UNHARMED
