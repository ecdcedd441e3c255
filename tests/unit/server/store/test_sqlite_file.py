"""One file: whole transactions, its own table, and what a disk does.

What is common to all files is tested with vectors, too; see test_vector_store.py.
"""

import sqlite3
import subprocess
import sys

import pytest
from judged_server.store.sqlite_file import Kind, SqliteFile

CAP = 16 << 20
KIND = Kind(
    "things.sqlite3",
    "things",
    "CREATE TABLE things (n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE)",
    "things",
    "they are made anew",
)
INSERT = "INSERT INTO things (name) VALUES (?)"


@pytest.fixture
def file(tmp_path):
    file = SqliteFile(tmp_path, KIND, CAP, 0)
    yield file
    file.close()


def names(file):
    return [row[0] for row in file.read("SELECT name FROM things ORDER BY n")]


def names_to_another_process(path):
    """What a process that opens the file, reads it and closes it finds there."""
    script = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]);"
        "print(*(row[0] for row in db.execute('SELECT name FROM things ORDER BY n'))); db.close()"
    )
    command = [sys.executable, "-c", script, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("begin", ["read", "write"])
def test_a_process_that_leaves_takes_nothing_from_those_who_stay(file, tmp_path, begin):
    """The last one who closes a file in this mode deletes its journal: so locks must hold."""
    path = tmp_path / KIND.name
    assert begin == "write" or names(file) == []  # which of the two connections is the first
    for place, name in enumerate("abc"):
        file.add(INSERT, [[name]])
        assert names(file) == list("abc"[: place + 1])
        assert names_to_another_process(path) == list("abc"[: place + 1])
    assert path.with_name(f"{path.name}-wal").exists()


def test_a_change_that_raises_leaves_nothing_half_done(file):
    file.add(INSERT, [["a"]])

    def change(db):
        db.execute(INSERT, ["b"])
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        file.write(change)
    assert names(file) == ["a"]
    assert file.add(INSERT, [["c"]])
    assert names(file) == ["a", "c"]


@pytest.mark.parametrize(
    "code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR_WRITE]
)
def test_a_disk_that_fails_switches_it_off_with_one_line(file, caplog, code):
    def change(_):
        error = sqlite3.OperationalError("the disk failed")
        error.sqlite_errorcode = code
        raise error

    for _ in range(3):
        assert not file.write(change)
        assert names(file) == []
    assert not file.on
    assert [record.getMessage().split(": ", 1)[1] for record in caplog.records] == [
        "the disk failed; they are made anew"
    ]


def test_the_last_of_a_disk_is_left_to_others(tmp_path, caplog):
    file = SqliteFile(tmp_path, KIND, CAP, 1 << 60)
    for _ in range(3):
        assert not file.add(INSERT, [["a"]])
    assert file.on
    assert len(caplog.records) == 1
