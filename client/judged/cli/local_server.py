"""A server of one's own, for as long as a command runs.

It runs as a process because the client never imports the server; it need only be installed in the
same environment.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from judged.cli.problems import Problem
from judged.values import ServerInfo

START_S = 60.0
STOP_S = 5.0
_POLL_S = 0.02
_NEEDED = ("judged_server", "numpy", "pydantic_settings", "uvloop")
"""The server, which every wheel has, and what tells that its extra is installed too."""
_LONGEST_SOCKET_PATH = 100
"""The kernel takes about this many bytes; with a deep temporary folder a port is used instead."""
_SHARED = {"JUDGED_TENANTS", "JUDGED_CERTIFICATE", "JUDGED_PRIVATE_KEY", "JUDGED_CLIENT_CA"}
_FLAG = re.compile(r"start (?:the server|it) with --([a-z-]+) ")
_ANEW = ", and start the server again"
_ITS_FLAG = re.compile(r"the server's --([a-z-]+)")


@contextmanager
def private_server() -> Iterator[str]:
    """Start a server, yield its address, stop it. Raises Problem when it does not start."""
    if any(find_spec(name) is None for name in _NEEDED):
        raise Problem(
            "there is no server to ask; name one with --target ADDR or JUDGED_TARGET, or run: "
            "pip install 'judged[server]'"
        )
    with tempfile.TemporaryDirectory(prefix="judged-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (folder / "stderr").open("wb") as log:
            server = _start(folder, log.fileno())
        try:
            yield _address(server, folder)
        finally:
            _stop(server)


def as_private(text: str) -> str:
    """Return what is said of a server's start in words for one that starts with every command.

    Its settings come from the environment alone, and the next command starts it anew anyway.
    """
    text = _FLAG.sub(lambda flag: f"set {_variable(flag[1])}=", text.replace(_ANEW, ""))
    return _ITS_FLAG.sub(lambda flag: _variable(flag[1]), text)


def _variable(flag: str) -> str:
    return f"JUDGED_{flag.replace('-', '_').upper()}"


def info_as_private(info: ServerInfo) -> ServerInfo:
    """Return what a private server says of itself, in such words."""
    return replace(
        info,
        judges=[replace(j, unavailable=as_private(j.unavailable)) for j in info.judges],
        chat_models=[replace(m, unavailable=as_private(m.unavailable)) for m in info.chat_models],
    )


@contextmanager
def problems_as_private() -> Iterator[None]:
    """Tell problems in such words."""
    try:
        yield
    except Problem as problem:
        raise Problem(as_private(str(problem))) from problem


def _start(folder: Path, log: int) -> subprocess.Popen[bytes]:
    socket = folder / "judged.sock"
    fits = len(os.fsencode(socket)) <= _LONGEST_SOCKET_PATH
    command = [
        *(sys.executable, "-m", "judged_server"),
        *("--listen", f"unix:{socket}" if fits else "127.0.0.1:0"),
        *("--port-file", str(folder / "address")),
        *("--log-level", "warning"),
        *("--grace-s", "1"),
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
        status = server.poll()
        if status is not None:
            raise Problem(f"the private server ended with status {status}: {_last_words(folder)}")
        if time.monotonic() > gives_up:
            raise Problem(
                f"the private server was not ready within {START_S:g} s; start one with "
                f"judged-server and name it with --target: {_last_words(folder)}"
            )
        time.sleep(_POLL_S)
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
