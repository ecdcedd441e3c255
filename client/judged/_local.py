"""A private server for the caller: on a Unix socket of its own, stopped after use.

It runs as a process because the client never imports the server, which has to be installed in the
same environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from judged.errors import FailedPrecondition

START_S = 60.0
STOP_S = 5.0
_SHARED = {"JUDGED_TENANTS", "JUDGED_CERTIFICATE", "JUDGED_PRIVATE_KEY", "JUDGED_CLIENT_CA"}


@contextmanager
def local() -> Iterator[str]:
    """Start a server, yield its address, stop it.

    It reads the settings of any server except those of tenants and TLS, and stops when this process
    ends, even by a kill. Raises ImportError if the server is not installed, FailedPrecondition if
    it does not start.
    """
    if find_spec("uvloop") is None:  # from the extra `server`
        raise ImportError("there is no server to start; run: pip install 'judged[server]'")
    with tempfile.TemporaryDirectory(prefix="judged-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (folder / "stderr").open("wb") as log, _start(folder, log.fileno()) as server:
            try:
                yield _address(server, folder)
            finally:
                server.terminate()
                try:
                    server.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    server.kill()


def _start(folder: Path, log: int) -> subprocess.Popen[bytes]:
    socket = folder / "judged.sock"
    command = [
        sys.executable,
        "-m",
        "judged_server",
        "--listen",
        f"unix:{socket}",
        "--port-file",
        str(folder / "address"),
        "--log-level",
        "warning",
        "--grace-s",
        "1",
        "--stop-with-stdin",
    ]
    # Tenants and TLS are for shared servers: only this user can reach this one's socket.
    environment = {name: value for name, value in os.environ.items() if name not in _SHARED}
    # A new session, so that Ctrl-C reaches only this process, which then stops the server.
    return subprocess.Popen(  # noqa: S603 - our own module, no shell
        command,
        # Never written to: it closes when this process ends, even by a kill; then the server stops.
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env=environment,
    )


def _address(server: subprocess.Popen[bytes], folder: Path) -> str:
    """Return the address that the server writes once it is ready. Raises FailedPrecondition."""
    port_file = folder / "address"
    deadline = time.monotonic() + START_S
    while not port_file.exists():
        if server.poll() is not None or time.monotonic() > deadline:
            said = (folder / "stderr").read_text(errors="replace").strip().splitlines()
            why = f"the private server did not start: {said[-1] if said else 'it wrote no error'}"
            raise FailedPrecondition(why, code="FAILED_PRECONDITION")
        time.sleep(0.02)
    return port_file.read_text().strip()
