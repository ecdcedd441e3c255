"""Starts real judged-server processes for tests and takes them down again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from tests.fakes.canaries import refuse_canaries
from tests.integration.forked_process import ForkedProcess

START_S = 100.0
_METRICS = re.compile(r'"metrics":"([^"]+)"')


@dataclass(frozen=True)
class ServerProcess:
    """A server that is ready."""

    process: ForkedProcess
    address: str
    log: Path

    def log_text(self) -> str:
        """Return everything the server has logged so far."""
        return self.log.read_text()


def until(fact: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for a fact, so many seconds at most."""
    ends = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < ends
        time.sleep(0.005)


@contextmanager
def running_server(
    *flags: str, listen: str = "127.0.0.1:0", env: dict[str, str] | None = None
) -> Iterator[ServerProcess]:
    """Yield a server on a port of its own; stop it with SIGTERM at the end."""
    with TemporaryDirectory() as folder:
        port_file, log = Path(folder, "port"), Path(folder, "log")
        with log.open("wb") as stderr:
            process = start(
                ["--listen", listen, "--port-file", str(port_file), *flags], stderr=stderr, env=env
            )
            try:
                address = wait_for_port_file(process, port_file, log)
                yield ServerProcess(process, address, log)
                refuse_canaries("/metrics", _metrics(process, log))
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    try:
                        process.wait(40)
                    except subprocess.TimeoutExpired:
                        process.kill()
                        process.wait()
        refuse_canaries("standard error", log.read_text(errors="replace"))


def _metrics(process: ForkedProcess, log: Path) -> str:
    """Return the metrics of a server that runs and has a port for them, else nothing."""
    found = _METRICS.search(log.read_text(errors="replace"))
    if found is None or process.poll() is not None:
        return ""
    try:
        with urllib.request.urlopen(f"http://{found[1]}/metrics", timeout=10) as reply:
            return str(reply.read().decode())
    except OSError:  # it is ending, or was stopped by the test
        return ""


def start(
    flags: Sequence[str],
    *,
    stderr: IO[bytes] | int | None = None,
    env: dict[str, str] | None = None,
) -> ForkedProcess:
    """Return a server process that was just started."""
    return ForkedProcess("judged_server", flags, stderr=stderr, env={**os.environ, **(env or {})})


def wait_for_port_file(
    process: ForkedProcess | subprocess.Popen[bytes], port_file: Path, log: Path
) -> str:
    """Return the address of a server once it is ready; fail with its log if it never is."""
    ends = time.monotonic() + START_S
    while not port_file.exists():
        if process.poll() is not None or time.monotonic() > ends:
            process.kill()
            raise AssertionError(f"the server did not start:\n{log.read_text()}")
        time.sleep(0.02)
    return port_file.read_text().strip()
