"""The server that a command talks to: the one named, else a private one, as long as it runs.

A private server is a process because the client never imports the server; it need only be installed
in the same environment.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from judged import Client, DeadlineExceeded, NotFound
from judged.cli.frame import Command, Strict, opt
from judged.cli.output import Places, Problem, explained, progress_bar
from judged.credentials import Credentials, Tls, Token
from judged.values import ServerInfo

TOKEN_VARIABLE = "JUDGED_TOKEN"  # noqa: S105 - the name of a variable
"""Holds the token where no `--token-file` names a file of it."""
START_S = 60.0
STOP_S = 5.0
_SHARED = {"JUDGED_TENANTS", "JUDGED_CERTIFICATE", "JUDGED_PRIVATE_KEY", "JUDGED_CLIENT_CA"}


@dataclass(frozen=True, slots=True)
class Connection:
    """A client, and what its server says of itself."""

    client: Client
    info: ServerInfo


class ServerCommand(Command):
    """A command that talks to a server."""

    target: str | None = opt(
        "ADDR",
        "Server to ask: HOST:PORT or unix:PATH; without it a private one is started.",
    )
    token_file: str | None = opt(
        "FILE",
        "File with the token for the server; without it JUDGED_TOKEN has it.",
    )
    tls_ca: str | None = opt(
        "FILE|default",
        "Speak TLS, and trust the authorities in this PEM file; default: well-known ones.",
    )
    tls_cert: str | None = opt("FILE", "PEM file with your own certificate, for mTLS.")
    tls_key: str | None = opt("FILE", "PEM file with its private key.")
    tls_proxy: str | None = opt("URL", "HTTP proxy to go through, with TLS.")

    @contextmanager
    def connect(self, places: Places | None = None) -> Iterator[Connection]:
        """Connect to the server; what it refuses is told by `places`. Raises Problem."""
        known = {**(places or {}), **self.places()}
        with ExitStack() as stack:
            stack.enter_context(explained(known))
            if self.target:
                client = Client(self.target, credentials=self._credentials())
            else:
                client = Client(stack.enter_context(private_server()))
                client._connection.patience.waits = False  # noqa: SLF001 - nobody starts it again
            stack.enter_context(client)
            yield Connection(client, _ask(client))

    def _credentials(self) -> Credentials | None:
        named = os.environ.get(TOKEN_VARIABLE, "").strip()
        token = Token(named) if named else None
        if self.token_file is not None:
            token = Token(file=self.token_file)
        if {self.tls_ca, self.tls_cert, self.tls_key, self.tls_proxy} == {None}:
            return token
        ca = None if self.tls_ca == "default" else self.tls_ca
        return Tls(ca, self.tls_cert, self.tls_key, token, self.tls_proxy)


class ResultCommand(ServerCommand, Strict):
    """A command whose result may come with warnings."""


class JudgingCommand(ResultCommand):
    """A command that asks judges, which may take long."""

    timeout: float = opt("SECONDS", "Longest that judging may take.", 3600.0, low=1)

    @contextmanager
    def asking(
        self, title: str, total: int, places: Places | None = None
    ) -> Iterator[tuple[Connection, dict[str, Any]]]:
        """Connect to the server, and show how much of `total` is done.

        Yields too what calls take: what tells the progress, and how long they may take.
        """
        with self.connect(places) as server, progress_bar(title, total) as progress:
            yield server, {"timeout": self.timeout, "progress": progress}


def _ask(client: Client) -> ServerInfo:
    try:
        return client.server_info(timeout=10)
    except (DeadlineExceeded, NotFound):
        raise Problem(
            f"{client.target} does not answer as a server does; is judged-server running there?"
        ) from None


@contextmanager
def private_server() -> Iterator[str]:
    """Start a server, yield its address, stop it. Raises Problem when it does not start."""
    if find_spec("uvloop") is None:  # of the extra that the server needs
        raise Problem(
            "there is no server to ask; name one with --target ADDR, or run: "
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
            raise Problem(
                "the private server did not start; name another one with --target: "
                f"{_last_words(folder)}"
            )
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
