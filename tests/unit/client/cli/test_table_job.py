"""Which rows of a table are judged already, and what a folder of verdicts refuses; without Ray."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from judged.arrow import Judging
from judged.cli import table_job
from judged.cli.output import Problem
from judged.cli.table_job import TEXTS, Folder, hashed, hashed_ids, unjudged
from judged.errors import FailedPrecondition
from judged.values import JudgeIdentity

JUDGING = Judging("nobody:1", "exact", expected="gold", retrieved="text")
JUDGE = JudgeIdentity("exact", "", 1.0, "exact|min_score=1", "", "f" * 64)
COLUMNS = ["query", "gold", "text"]


def table(ids: Sequence[Any], **columns: Any) -> Any:
    texts = [f"text {each}" for each in ids]
    return pa.table({"id": ids, "query": texts, "gold": texts, "text": texts, **columns})


def write(path: Path, ids: Sequence[Any]) -> Path:
    """Write a file of verdicts as a job does."""
    given = [[f"text {each}"] * 3 for each in ids]
    rows = {"id": ids, TEXTS: hashed(given), "status": ["OK"] * len(ids)}
    pq.write_table(pa.table(rows), path)
    return path


def folder_of(path: Path, table_ids: Iterable[Any] = ()) -> Folder:
    found = Folder(str(path), "id")
    found.begin(JUDGE, COLUMNS)
    ids = hashed(table_ids)
    found.read(ids[ids.argsort()])
    return found


class TestIds:
    @pytest.mark.parametrize(
        ("files", "says"),
        [
            ([[1, 2, 1]], "id: is 1 in rows 0 and 2; give every row an id of its own"),
            ([[1, 2], [3, 1]], "id: is 1 in rows 0 and 3; give every row an id of its own"),
            ([["a", "b"], ["c", None]], "id: is null in row 3; give every row an id"),
            ([[0.5]], "id: must hold texts or whole numbers, not double"),
        ],
    )
    def test_that_tell_no_rows_apart_are_refused(self, tmp_path: Path, files: Any, says: str):
        for name, ids in zip("abc", files, strict=False):
            pq.write_table(pa.table({"id": ids}), tmp_path / f"{name}.parquet")
        with pytest.raises(Problem) as caught:
            hashed_ids(str(tmp_path), "id", [])
        assert str(caught.value) == f"{tmp_path}: {says}"

    def test_of_one_hash_are_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        def by_length(values: Iterable[Any]) -> Any:
            return pa.array(map(len, values), pa.int64()).to_numpy()

        monkeypatch.setattr(table_job, "hashed", by_length)
        pq.write_table(pa.table({"id": ["a", "bb", "cc", "ddd"]}), tmp_path / "a.parquet")
        with pytest.raises(Problem, match="id: 'bb', 'cc' have one hash; change one of them"):
            hashed_ids(str(tmp_path), "id", [])

    def test_are_hashed_in_order(self, tmp_path: Path):
        pq.write_table(table([3, 1, 2]), tmp_path / "a.parquet")
        found = hashed_ids(str(tmp_path), "id", COLUMNS)
        assert found.tolist() == sorted(hashed([1, 2, 3]).tolist())
        with pytest.raises(Problem, match="has no column answer, key, but id, query, gold, text"):
            hashed_ids(str(tmp_path), "key", ["answer"])

    def test_of_a_damaged_file_are_refused(self, tmp_path: Path):
        whole = write(tmp_path / "a.parquet", [1]).read_bytes()
        (tmp_path / "b.parquet").write_bytes(whole[:-9])
        with pytest.raises(Problem, match="can't be read as Parquet"):
            hashed_ids(str(tmp_path), "id", [])
        (tmp_path / "b.parquet").rename(tmp_path / "b")
        with pytest.raises(Problem, match=r"/b: Ray reads only names that end in .parquet; rename"):
            hashed_ids(str(tmp_path), "id", [])


class TestFolder:
    def test_tells_which_rows_it_has(self, tmp_path: Path):
        folder_of(tmp_path / "out")
        write(tmp_path / "out" / "a.parquet", [1, 2])
        (tmp_path / "out" / "notes.txt").write_text("mine")
        shrunk = folder_of(tmp_path / "out", [2, 3])
        assert (shrunk.missing, shrunk.statuses) == (1, {"OK": 1})
        found = folder_of(tmp_path / "out", [1, 2, 3])
        assert (found.missing, found.statuses) == (1, {"OK": 2})
        new = unjudged(table([1, 2, 3]), JUDGING, found.ids, found.texts)
        assert new.drop_columns([TEXTS]) == table([3])
        assert new[TEXTS].to_pylist() == hashed([["text 3"] * 3]).tolist()

    def test_removes_files_that_are_truncated_or_repeat_rows(self, tmp_path: Path):
        folder_of(tmp_path)
        first = write(tmp_path / "a.parquet", [1, 2])
        (tmp_path / "b.parquet").write_bytes(first.read_bytes()[:-9])
        write(tmp_path / "c.parquet", [3])
        write(tmp_path / "d.parquet", [4, 2])
        found = folder_of(tmp_path, [1, 2, 3, 4])
        assert (found.missing, found.statuses) == (1, {"OK": 3})
        assert sorted(path.name for path in tmp_path.glob("*.parquet")) == [
            "a.parquet",
            "c.parquet",
        ]

    def test_refuses_what_no_job_wrote(self, tmp_path: Path):
        folder_of(tmp_path)
        theirs = tmp_path / "theirs.parquet"
        pq.write_table(pa.table({"id": [1], "status": ["OK"]}), theirs)
        with pytest.raises(Problem, match=r"theirs.parquet: is not of `judged batch`; move it out"):
            folder_of(tmp_path)
        write(theirs, [1, 2, 1])
        with pytest.raises(Problem, match=r"theirs.parquet: has an id twice; move it out"):
            folder_of(tmp_path)
        assert theirs.exists()

    def test_refuses_to_begin_among_other_files(self, tmp_path: Path):
        (tmp_path / "notes.txt").write_text("mine")
        with pytest.raises(Problem, match="has other files; name another folder"):
            folder_of(tmp_path)

    def test_refuses_another_judge_and_other_columns(self, tmp_path: Path):
        folder_of(tmp_path)
        other = JudgeIdentity("exact", "", 0.5, "exact|min_score=0.5", "", "e" * 64)
        with pytest.raises(Problem, match=r"has verdicts of .*exact\|min_score=1.*name another"):
            Folder(str(tmp_path), "id").begin(other, COLUMNS)
        with pytest.raises(Problem, match=r'and not of .*\["query", null, "text"\]'):
            Folder(str(tmp_path), "id").begin(JUDGE, ["query", None, "text"])

    def test_refuses_edited_texts(self, tmp_path: Path):
        folder_of(tmp_path)
        write(tmp_path / "a.parquet", [1, 2])
        found = folder_of(tmp_path, [1, 2])
        edited = table([2, 1], text=["text 2", "another"])
        with pytest.raises(FailedPrecondition, match="id 1 has other texts than those that its"):
            unjudged(edited, JUDGING, found.ids, found.texts)
