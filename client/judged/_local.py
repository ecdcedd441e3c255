"""A server of the caller's own: on a socket that nobody else has, as long as it is needed.

It is a process because the client never imports the server; it need only be installed in the same
environment.
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

    It reads the settings that any server does, those aside that are for others who call it, and
    ends with this process however that ends. Raises ImportError where the server is not installed,
    FailedPrecondition when it does not start.
    """
    if find_spec("uvloop") is None:  # of the extra that the server needs
        raise ImportError("there is no server to start; run: pip install 'judged[server]'")
    with tempfile.TemporaryDirectory(prefix="judged-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (folder / "stderr").open("wb") as log:
            server = _start(folder, log.fileno())
        try:
            yield _address(server, folder)
        finally:
            _stop(server)


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
    # What is set for servers that others call: this one has a socket that is nobody else's.
    environment = {name: value for name, value in os.environ.items() if name not in _SHARED}
    # A session of its own, so that Ctrl-C reaches the command alone, which then stops the server.
    return subprocess.Popen(  # noqa: S603 - our own module, no shell
        command,
        # Never written to: it ends with this process, however that ends, and so the server does.
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env=environment,
    )


def _address(server: subprocess.Popen[bytes], folder: Path) -> str:
    """Return the address the server writes down once it is ready."""
    port_file = folder / "address"
    gives_up = time.monotonic() + START_S
    while not port_file.exists():
        if server.poll() is not None or time.monotonic() > gives_up:
            why = f"the private server did not start: {_last_words(folder)}"
            raise FailedPrecondition(why, code="FAILED_PRECONDITION")
        time.sleep(0.02)
    return port_file.read_text().strip()


def _last_words(folder: Path) -> str:
    """Return the last line the server wrote."""
    lines = (folder / "stderr").read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _stop(server: subprocess.Popen[bytes]) -> None:
    if server.stdin is not None:
        server.stdin.close()
    server.terminate()
    try:
        server.wait(STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
