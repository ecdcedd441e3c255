"""Log lines: each is written once, whoever writes at the same time."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from judged_server.telemetry import Lines


def test_no_line_of_any_thread_is_lost(capfdbinary: pytest.CaptureFixture[bytes]):
    lines, threads, each = Lines(), 6, 300
    begin = threading.Barrier(threads)

    def write(thread: int) -> None:
        begin.wait()
        for i in range(each):
            lines.now(b"%d-%d" % (thread, i))

    writers = [threading.Thread(target=write, args=(n,)) for n in range(threads)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    written = capfdbinary.readouterr().err.split()
    assert sorted(written) == sorted(
        b"%d-%d" % (thread, i) for thread in range(threads) for i in range(each)
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, as Linux has it")
def test_what_a_disk_without_space_does_not_take_fails_no_caller(monkeypatch: pytest.MonkeyPatch):
    full = Path("/dev/full").open("w")  # noqa: SIM115 - to close it fails too
    try:
        monkeypatch.setattr(sys, "stderr", full)
        Lines().warning(b"a line")
    finally:
        with pytest.raises(OSError, match="No space left"):
            full.close()
