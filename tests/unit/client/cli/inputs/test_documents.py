from pathlib import Path

from judged.cli.inputs.documents import run_names


def names(*paths):
    return run_names([Path(path) for path in paths])


def test_runs_are_called_by_their_stems():
    assert names("out/bm25.run", "dense.txt.gz") == ["bm25", "dense"]


def test_stems_that_repeat_give_way_to_paths():
    assert names("a/x.run", "b/x.run", "y.run") == ["a/x.run", "b/x.run", "y"]


def test_a_file_named_twice_is_two_runs():
    assert names("x.run", "x.run", "x.run") == ["x.run", "x.run#2", "x.run#3"]
