"""Processes that run a command of ours, each forked from one that has imported it already.

Starting Python and importing the server takes more than a second of CPU, which is more than most
servers of tests do with theirs.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, Any

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["judged.cli.app", "judged_server.app", __name__])


class ForkedProcess:
    """`python -m MODULE ARGUMENTS...`, begun as it is made; the rest is that of `Popen`.

    Streams that are None are those of this process. The folder is that of this process, unless one
    is given; so is the environment.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        stdin: IO[Any] | int | None = None,
        stdout: IO[Any] | int | None = None,
        stderr: IO[Any] | int | None = None,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.args = [module, *arguments]
        streams = [_Stream(each, own) for own, each in enumerate((stdin, stdout, stderr))]
        self._process = _CONTEXT.Process(
            target=_become,
            args=(
                module,
                list(arguments),
                os.fspath(cwd or Path.cwd()),
                dict(os.environ if env is None else env),
                streams,
            ),
            daemon=True,  # ended with this process, should a test leave it
        )
        # Who reads the status first gets it; another thread, at the same time, would read that the
        # process has ended without one.
        self._reading = threading.Lock()
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        with self._reading:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status. Raises subprocess.TimeoutExpired."""
        wait([self._process.sentinel], timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal to a process that still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it may end meanwhile
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Stream:
    """A descriptor on its way to another process."""

    def __init__(self, stream: IO[Any] | int | None, own: int) -> None:
        given = own if stream is None else stream
        self._number = given if isinstance(given, int) else given.fileno()
        self._sent: Any = None

    def __getstate__(self) -> Any:
        return DupFd(self._number)  # can be had while a process is being started alone

    def __setstate__(self, sent: Any) -> None:
        self._sent = sent

    def become(self, number: int) -> None:
        os.dup2(self._sent.detach(), number)


def _become(
    module: str,
    arguments: list[str],
    folder: str,
    environment: dict[str, str],
    streams: list[_Stream],
) -> None:
    """Become `python -m MODULE`, with its end: what is to be done at exit is done."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate(streams):
        stream.become(number)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False, buffering=buffering)  # noqa: SIM115
        for number, mode, buffering in ((0, "r", -1), (1, "w", -1), (2, "w", 1))
    )
    sys.argv = [module, *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
