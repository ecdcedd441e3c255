"""Watches the event loop: how late it is, and what holds it up when it stands.

Nothing over 10 ms belongs on the loop, since everybody waits meanwhile, health checks too. A lag
above WORTH_TELLING_S is logged; `monitoring` tells the others. When the loop stands for `dump_s`,
the stacks of all threads go to standard error; after `exit_s` the process ends with status 1, so
that whoever supervises it can start another: a server that answers nothing is worse than none.
"""

from __future__ import annotations

import asyncio
import faulthandler
import sys
import threading
import time
from typing import TextIO

from judged_server.telemetry import logger

BEAT_S = 0.25
WORTH_TELLING_S = 0.5
TELL_EVERY_S = 10.0

_log = logger("watchdog")


class Watchdog:
    """Times of the loop's beats; 0 seconds switch the stack dump or the end off."""

    def __init__(self, dump_s: float, exit_s: float, file: TextIO | None = None) -> None:
        self._dump_s = dump_s
        self._exit_s = exit_s
        self._file = file or sys.stderr
        self._beat = time.monotonic()
        self._ended = threading.Event()
        self._told = 0.0

    async def run(self) -> None:
        """Beat until cancelled."""
        watching = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._beat = time.monotonic()
        if self._dump_s:
            watching.start()
        armed = 0.0
        try:
            while True:
                now = time.monotonic()
                if self._exit_s and now - armed > BEAT_S:
                    # Of C and without Python's lock: it ends a process whose lock nobody lets go.
                    faulthandler.dump_traceback_later(self._exit_s, exit=True, file=self._file)
                    armed = now
                self._beat = now
                await asyncio.sleep(BEAT_S)
                self._note(time.monotonic() - now - BEAT_S)
        finally:
            self._ended.set()
            faulthandler.cancel_dump_traceback_later()

    def _note(self, lag_s: float) -> None:
        now = time.monotonic()
        if lag_s > WORTH_TELLING_S and now > self._told + TELL_EVERY_S:
            self._told = now
            _log.warning("the event loop was held up", ms=round(lag_s * 1e3))

    def _watch(self) -> None:
        """Write the stacks once for each time that the loop stands."""
        dumped = 0.0
        while not self._ended.wait(min(BEAT_S, self._dump_s / 4)):
            beat = self._beat
            if time.monotonic() - beat > self._dump_s and beat != dumped:
                dumped = beat
                _log.error("the event loop stands; the stacks of all threads follow")
                faulthandler.dump_traceback(file=self._file, all_threads=True)
