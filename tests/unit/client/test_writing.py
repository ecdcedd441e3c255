"""Files that are written over good ones: after an error these are as they were."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from judged import Calibrator
from judged._files import replace_text, replacing_text
from judged.evaluation import Dataset, Document, Query, Results, Retrieved

LONG = "x" * 5000
DATASET = Dataset(
    [Query(f"q{n}", LONG, [LONG], [f"d{n}"]) for n in range(3)], {"d1": Document("d1", LONG)}
)
RESULTS = Results({f"q{n}": [Retrieved("d" * 5000, text=LONG)] for n in range(3)})


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_text_takes_the_place_of_a_file_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "a.txt"
    replace_text(path, "one\n")
    (tmp_path / "plain").write_text("")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "plain").unlink()
    path.chmod(0o640)
    replace_text(path, "two\n")
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("two\n", 0o640)
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt(), SystemExit(143)])
def test_after_an_error_a_file_is_as_it_was(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("good")

    def fail() -> None:
        with replacing_text(path) as file:
            file.write("half")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert (path.read_text(), names(tmp_path)) == ("good", ["a.txt"])


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path):
    path, link, pipe = tmp_path / "a.txt", tmp_path / "link", tmp_path / "pipe"
    path.write_text("one")
    link.symlink_to(path)
    replace_text(link, "two")
    assert link.is_symlink()
    assert path.read_text() == "two"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    replace_text(pipe, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    replace_text(os.devnull, "nowhere")


def test_standard_output_is_written_to_by_its_name(tmp_path):
    code = "from judged._files import replace_text; replace_text('/dev/stdout', 'out')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert ran.stdout == b"out"
    with (tmp_path / "a.txt").open("w+") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
        assert file.read() == "out"


def test_a_file_that_can_be_written_and_not_replaced_is_written(tmp_path, monkeypatch):
    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")  # as for a file that is mounted

    path = tmp_path / "a.txt"
    path.write_text("one, and longer")
    monkeypatch.setattr(Path, "replace", busy)
    replace_text(path, "two")
    assert path.read_text() == "two"
    assert names(tmp_path) == ["a.txt"]


WRITERS: dict[str, Callable[[Path], object]] = {
    "a.json": DATASET.save,
    "a.csv": DATASET.save,
    "results.jsonl": RESULTS.save,
    "calibration": lambda path: Calibrator("key", 1.0, 0.0).save(path, note=LONG),
}


def held(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    return {str(each): each.read_bytes() for each in files}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_what_was_there(tmp_path, name: str):
    # A limit on the size of files stands for the disk: writing beyond it is an OSError.
    path = tmp_path / name
    WRITERS[name](path)
    before = held(path)
    code = (
        f"import resource, sys; sys.path[:0] = {[str(Path(__file__).parent)]!r}\n"
        "from pathlib import Path\n"
        "import test_writing\n"
        "sys.dont_write_bytecode = True\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "try:\n"
        f"    test_writing.WRITERS[{name!r}](Path({str(path)!r}))\n"
        "except Exception as error:\n"
        "    print(type(error).__name__, error)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "File too large" in ran.stdout
    assert held(path) == before
    assert all(not left.startswith(".judged") for left in names(tmp_path))
