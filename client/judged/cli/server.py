"""The server that a command calls: the one named, else a private one while the command runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from judged import Client, DeadlineExceeded, FailedPrecondition, NotFound, local
from judged.cli.frame import Command, Strict, opt
from judged.cli.output import Places, Problem, explained, progress_bar
from judged.credentials import Credentials, Tls, Token
from judged.values import ServerInfo

TOKEN_VARIABLE = "JUDGED_TOKEN"  # noqa: S105 - the name of a variable
"""Variable with the token, if there is no `--token-file`."""


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
    tls_name: str | None = opt(
        "NAME", "Name that the server's certificate must have, if not that of the address."
    )

    @contextmanager
    def connect(self, places: Places | None = None) -> Iterator[tuple[Client, ServerInfo]]:
        """Yield a client and its server's information; `places` names fields in errors.

        Raises Problem.
        """
        known = {**(places or {}), **self.places()}
        with ExitStack() as stack:
            stack.enter_context(explained(known))
            if self.target:
                client = Client(self.target, credentials=self.credentials())
            else:
                client = Client(_started(stack))
                client._connection.patience.waits = False  # noqa: SLF001 - it is not restarted
            stack.enter_context(client)
            yield client, _ask(client)

    def credentials(self) -> Credentials | None:
        """Return the credentials for the named server; a private one needs none."""
        if not self.target:
            return None
        named = os.environ.get(TOKEN_VARIABLE, "").strip()
        token = Token(named) if named else None
        if self.token_file is not None:
            token = Token(file=self.token_file)
        ca = None if self.tls_ca == "default" else self.tls_ca
        given = Tls(ca, self.tls_cert, self.tls_key, None, self.tls_proxy, self.tls_name)
        return token if given == Tls() and self.tls_ca is None else replace(given, token=token)


class ResultCommand(ServerCommand, Strict):
    """A command whose result may come with warnings."""


class JudgingCommand(ResultCommand):
    """A command that asks judges, which may take a long time."""

    timeout: float = opt("SECONDS", "Longest that judging may take.", 3600.0, low=1)

    @contextmanager
    def asking(
        self, title: str, total: int, places: Places | None = None
    ) -> Iterator[tuple[Client, ServerInfo, dict[str, Any]]]:
        """Connect to the server, and show progress out of `total`.

        Also yields arguments for calls: the progress callback and the timeout.
        """
        with self.connect(places) as (client, info), progress_bar(title, total) as progress:
            yield client, info, {"timeout": self.timeout, "progress": progress}


def _ask(client: Client) -> ServerInfo:
    try:
        return client.server_info(timeout=10)
    except (DeadlineExceeded, NotFound):
        raise Problem(
            f"{client.target} does not answer as a server does; is judged-server running there?"
        ) from None


def _started(stack: ExitStack) -> str:
    """Return the address of a private server, which ends with `stack`. Raises Problem."""
    try:
        return stack.enter_context(local())
    except (ImportError, FailedPrecondition) as error:
        raise Problem(f"{error}; or name a server with --target ADDR") from None
