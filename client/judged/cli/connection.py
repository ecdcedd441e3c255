"""The server that a command talks to: the one named, else a private one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer

from judged import Client, DeadlineExceeded, InvalidArgument, NotFound
from judged._transport.channel import fault
from judged.cli.local_server import info_as_private, private_server, problems_as_private
from judged.cli.problems import Problem, explained
from judged.credentials import Credentials, Tls, Token
from judged.values import ServerInfo

_FIRST_ANSWER_S = 10.0
TOKEN_VARIABLE = "JUDGED_TOKEN"  # noqa: S105 - the name of a variable
"""Holds the token where no `--token-file` names a file of it."""
WELL_KNOWN = "default"
"""What `--tls-ca` takes for the authorities that gRPC brings."""


@dataclass(frozen=True, slots=True)
class Access:
    """The options that say which server a command talks to, and how."""

    target: Annotated[
        str | None,
        typer.Option(
            metavar="ADDR",
            help="Server to ask: HOST:PORT or unix:PATH. Without it JUDGED_TARGET, else a private "
            "server is started for this call.",
        ),
    ] = None
    token_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="File with the token that the server asks for. Without it the token in "
            "JUDGED_TOKEN.",
        ),
    ] = None
    tls_ca: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|default",
            help="Speak TLS, and trust the authorities in this PEM file; default: well-known ones.",
        ),
    ] = None
    tls_cert: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="PEM file with your own certificate, for mTLS."),
    ] = None
    tls_key: Annotated[
        str | None, typer.Option(metavar="FILE", help="PEM file with its private key.")
    ] = None
    tls_proxy: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="HTTP proxy to go through, with TLS. Those of http_proxy are passed over.",
        ),
    ] = None

    @property
    def named(self) -> str | None:
        """The server that is named: that of the option, else of JUDGED_TARGET."""
        return self.target or os.environ.get("JUDGED_TARGET") or None

    def credentials(self) -> Credentials | None:
        """Return the credentials that the options and JUDGED_TOKEN give. Raises Problem."""
        if (self.tls_cert is None) != (self.tls_key is None):
            given, missing = "--tls-key", "--tls-cert"
            if self.tls_key is None:
                given, missing = missing, given
            raise Problem(f"{given}: needs {missing} FILE too; give both, or neither")
        if self.tls_cert is not None and self.tls_ca is None:
            raise Problem("--tls-cert: needs --tls-ca FILE too, or --tls-ca default")
        if self.tls_proxy is not None and self.tls_ca is None:
            raise Problem("--tls-proxy: needs --tls-ca FILE too, or --tls-ca default")
        named = os.environ.get(TOKEN_VARIABLE, "").strip()
        try:
            token = None
            if self.token_file is not None:
                token = Token(file=self.token_file)
            elif named:
                token = Token(named)
            if self.tls_ca is None:
                return token
            ca = None if self.tls_ca == WELL_KNOWN else self.tls_ca
            return Tls(ca, self.tls_cert, self.tls_key, token, self.tls_proxy)
        except InvalidArgument as error:
            raise _of_flags(error) from None


@dataclass(frozen=True, slots=True)
class Connection:
    """A client, and what its server says of itself."""

    client: Client
    info: ServerInfo


@contextmanager
def connect(access: Access = Access()) -> Iterator[Connection]:
    """Connect to the server that is named, else to one started for this command alone."""
    named = access.named
    if named:
        check_target(named)
    with ExitStack() as stack:
        if named:
            try:
                client = stack.enter_context(Client(named, credentials=access.credentials()))
            except InvalidArgument as error:
                raise _of_flags(error) from None
            yield Connection(client, _ask(client))
        else:
            client = stack.enter_context(Client(stack.enter_context(private_server())))
            client._connection.budget.waits = False  # noqa: SLF001 - nobody starts it again
            with problems_as_private():
                yield Connection(client, info_as_private(_ask(client)))


def require_target(access: Access, why: str) -> None:
    """Raise Problem where no server is named, for a command that a private one can't serve."""
    if not access.named:
        raise Problem(f"{why}; name one: --target HOST:PORT, or JUDGED_TARGET")


def check_target(target: str) -> None:
    """Raise Problem for an address that gRPC would take for another than was meant."""
    if (wrong := fault(target.strip())) is not None:
        raise Problem(f"--target {target}: {wrong}")


def _of_flags(error: InvalidArgument) -> Problem:
    return Problem(
        error.message.removeprefix("credentials: ")
        .replace("Tls(token=...), or --tls-ca with a command", "--tls-ca")
        .replace("Tls(proxy=...)", "--tls-proxy")
        .replace("; give the Token alone", "; leave out --tls-ca")
    )


def _ask(client: Client) -> ServerInfo:
    try:
        with explained():
            return client.server_info(timeout=_FIRST_ANSWER_S)
    except Problem as problem:
        if isinstance(problem.__cause__, DeadlineExceeded):
            raise Problem(
                f"no answer from {client.target} within {_FIRST_ANSWER_S:g} s; is judged-server "
                "running there?"
            ) from None
        if isinstance(problem.__cause__, NotFound):
            raise Problem(
                f"{client.target} answers, but not as judged-server does; check --target and "
                "JUDGED_TARGET"
            ) from None
        raise
