"""Log lines: each is written once, whoever writes at the same time."""

from __future__ import annotations

import json
import logging
import sys
import threading
from pathlib import Path

import pytest
from judged_server.telemetry import Lines, Logger, _Forward


def test_no_line_of_any_thread_is_lost(capfdbinary: pytest.CaptureFixture[bytes]):
    lines, threads, each = Lines(), 6, 300
    begin = threading.Barrier(threads)

    def write(thread: int) -> None:
        begin.wait()
        for i in range(each):
            lines.now({"at": f"{thread}-{i}"})

    writers = [threading.Thread(target=write, args=(n,)) for n in range(threads)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    written = [json.loads(line)["at"] for line in capfdbinary.readouterr().err.splitlines()]
    assert sorted(written) == sorted(f"{n}-{i}" for n in range(threads) for i in range(each))


def test_a_line_has_its_part_its_level_and_the_error(capfdbinary: pytest.CaptureFixture[bytes]):
    error = KeyError("\ud800")
    Logger("a part").error("it failed", name="\ud800", path=Path("x"), exc_info=error)
    library = logging.getLogger("a library")
    library.propagate = False  # the root may forward lines already
    library.addHandler(_Forward())
    library.warning("%d texts", 2)
    lines = map(json.loads, capfdbinary.readouterr().err.splitlines())
    # A thread that another test has left behind may write here too.
    first, second = (line for line in lines if line["part"] in ("a part", "a library"))
    assert {**first, "exception": "", "timestamp": ""} == {
        "part": "a part",
        "name": "\ud800",
        "path": "PosixPath('x')",
        "event": "it failed",
        "level": "error",
        "exception": "",
        "timestamp": "",
    }
    assert first["exception"].endswith("KeyError: '\\ud800'")
    assert (second["part"], second["event"], second["level"]) == (
        "a library",
        "2 texts",
        "warning",
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, as Linux has it")
def test_what_a_disk_without_space_does_not_take_fails_no_caller(monkeypatch: pytest.MonkeyPatch):
    full = Path("/dev/full").open("w")  # noqa: SIM115 - to close it fails too
    try:
        monkeypatch.setattr(sys, "stderr", full)
        Lines().now({"event": "a line"})
    finally:
        with pytest.raises(OSError, match="No space left"):
            full.close()
