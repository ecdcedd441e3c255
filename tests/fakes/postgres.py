"""A real PostgreSQL server of a test, which can be stopped, killed and started again."""

from __future__ import annotations

import atexit
import functools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.canaries import KEY

_USER = pwd.getpwnam("nobody") if os.getuid() == 0 else None
"""Who runs it: as root it refuses to."""
# Not by `subprocess`, which would fork this process, with its threads of gRPC, for it.
_AS_USER = (
    ["setpriv", f"--reuid={_USER.pw_uid}", f"--regid={_USER.pw_gid}", "--clear-groups"]
    if _USER
    else []
)


def _program(name: str) -> str:
    """Return where a program is, "" if nowhere: Debian keeps those of servers out of the PATH."""
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(places[-1]) if places else shutil.which(name) or ""


@dataclass
class Postgres:
    """A server on a port and a folder of its own."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://judged:{KEY}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it; it is ready once it has recovered."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",  # tests end it, never the machine, whose kernel keeps what was written
            "shared_buffers": "16MB",
            "max_connections": "40",
        }
        flags = [flag for name, value in settings.items() for flag in ("-c", f"{name}={value}")]
        command = [
            *_AS_USER,
            _program("postgres"),
            "-D",
            str(self.folder),
            "-p",
            str(self.port),
            *flags,
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def wait(self, seconds: float = 30.0) -> None:
        """Return once it answers; start it again where one that was killed was in its way."""
        psycopg = pytest.importorskip("psycopg")
        ends = time.monotonic() + seconds
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                if self.process is not None and self.process.poll() is not None:
                    self.start()
                assert time.monotonic() < ends, (self.folder / "log").read_text()
                time.sleep(0.02)
            else:
                return

    def run(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(self.url, autocommit=True) as db:
            done = db.execute(query, values)
            return done.fetchall() if done.description else []

    def back_up(self) -> None:
        """Copy the data of one that was killed."""
        self._copy(self.folder, self.folder.parent / "backup")

    def restore(self) -> None:
        """Put what was copied in the place of the data."""
        shutil.rmtree(self.folder)
        self._copy(self.folder.parent / "backup", self.folder)

    @staticmethod
    def _copy(place: Path, to: Path) -> None:
        subprocess.run(["cp", "-a", str(place), str(to)], check=True)

    def signal(self, number: int) -> None:
        """Send a signal to all of its processes."""
        assert self.process is not None
        for pid in (self.process.pid, *_children(self.process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it stand still for a while."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a crash does."""
        assert self.process is not None
        self.signal(signal.SIGKILL)
        self.process.wait()


def _children(parent: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
    return found


@functools.cache
def _new_data(initdb: str) -> str:
    """Return the folder of a database that is new, to be copied: making one takes a second."""
    made = tempfile.TemporaryDirectory(prefix="judged-pg-")
    atexit.register(made.cleanup)
    if _USER is not None:
        os.chown(made.name, _USER.pw_uid, _USER.pw_gid)
    data = f"{made.name}/data"
    flags = ["-U", "judged", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
    command = [*_AS_USER, initdb, "-D", data, "--wal-segsize=1", *flags]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")
    return data


@contextmanager
def running_postgres(*, started: bool = True) -> Iterator[Postgres]:
    """Yield a server that answers, or is only set up; skip the test where there is none."""
    pytest.importorskip("psycopg", reason="not run: no psycopg (pip install 'judged[postgres]')")
    initdb = _program("initdb")
    if not (initdb and _program("postgres")):
        pytest.skip("not run: no PostgreSQL (apt-get install postgresql)")
    with tempfile.TemporaryDirectory(prefix="judged-pg-") as name:
        folder = Path(name)
        subprocess.run(["cp", "-a", _new_data(initdb), str(folder / "data")], check=True)
        if _USER is not None:
            os.chown(folder, _USER.pw_uid, _USER.pw_gid)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = Postgres(folder / "data", port)
        try:
            if started:
                server.start()
                server.wait()
            yield server
        finally:
            if server.process is not None and server.process.poll() is None:
                server.signal(signal.SIGCONT)
                server.kill()
