"""A trace in its file: what is kept joins what is there, and texts may stay out."""

from __future__ import annotations

from pathlib import Path

import pytest
from judged import QueryGroup, Verdicts
from judged.evaluation import FileError
from judged.traces import Replay, ReplayError, Trace, TraceFile
from judged.values import JudgeIdentity

IDENTITY = JudgeIdentity("exact", "verbatim", 1.0, "exact|min_score:1|v1", "a" * 64, "b" * 64)


def group(retrieved: str) -> QueryGroup:
    return QueryGroup("q", ["e"], [retrieved], "1")


def verdict(relevant: bool) -> Verdicts:
    return Verdicts([relevant], [float(relevant)], [1], [1], [0], [0, 1], {}, IDENTITY, [], {})


def read(path: Path, retrieved: str) -> bool:
    (relevant,) = Replay(Trace.read(path)).verdicts([group(retrieved)], []).relevant
    return relevant


def test_what_is_kept_joins_what_the_file_has(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    TraceFile(path).keep_verdicts([group("first text")], verdict(True))
    file = TraceFile(path)
    file.keep_verdicts([group("second text")], verdict(False))
    assert [read(path, text) for text in ("first text", "second text")] == [True, False]
    file.keep_verdicts([group("first text")], verdict(False))
    assert read(path, "first text") is False
    assert len(file.trace) == 2


def test_hashes_stand_for_texts(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    TraceFile(path, hashed=True).keep_verdicts([group("first text")], verdict(True))
    assert "first text" not in path.read_text()
    assert read(path, "first text") is True
    with pytest.raises(ReplayError):
        read(path, "another text")


def test_a_file_that_is_no_trace_is_refused_and_left_alone(tmp_path: Path):
    path = tmp_path / "t.jsonl"
    path.write_text("{}\n")
    with pytest.raises(FileError, match="no header of a trace"):
        TraceFile(path)
    assert path.read_text() == "{}\n"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    file = TraceFile(tmp_path / "none" / "t.jsonl")
    with pytest.raises(FileError, match="can't be written"):
        file.keep_verdicts([group("r")], verdict(True))
