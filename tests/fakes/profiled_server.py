"""judged-server that notes which of its files are entered, on all threads.

`python -m tests.fakes.profiled_server OUT FLAGS...`. Each SIGUSR2 begins a record, or ends it and
writes the names of the files, a line each, to OUT.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from judged_server import __main__ as program

_PACKAGE = f"judged_server{os.sep}"
_BY_THE_CLOCK = {
    "watch_loop",
    "MemoryWatch.run",
    "apply_invalidations",
    "renew_leases",
}
"""What runs again and again, whether or not there is a call; what it calls is no part of one."""


def _is_by_the_clock(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_qualname not in _BY_THE_CLOCK:
        frame = frame.f_back
    return frame is not None


class Recorder:
    """The files that were entered since the record began."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._entered: set[str] | None = None

    def note(self, frame: FrameType, event: str, _argument: object) -> None:
        """Note the file of a function that is called, if it is the server's."""
        if self._entered is not None and event == "call":
            _, package, name = frame.f_code.co_filename.rpartition(_PACKAGE)
            if package and name not in self._entered and not _is_by_the_clock(frame):
                self._entered.add(name)

    def toggle(self, *_: object) -> None:
        """Begin a record, or end it."""
        if self._entered is None:
            self._entered = set()
            return
        entered, self._entered = sorted(self._entered), None
        written = self._out.with_suffix(".new")
        written.write_text("".join(f"{name}\n" for name in entered), encoding="utf-8")
        written.replace(self._out)


if __name__ == "__main__":
    recorder = Recorder(Path(sys.argv[1]))
    threading.setprofile(recorder.note)
    sys.setprofile(recorder.note)
    signal.signal(signal.SIGUSR2, recorder.toggle)
    sys.argv = ["judged-server", *sys.argv[2:]]
    program.main()
