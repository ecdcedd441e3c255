"""The server that a command talks to: the one named, else a private one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from judged import Client, DeadlineExceeded, NotFound
from judged._transport.channel import fault
from judged.cli.local_server import info_as_private, private_server, problems_as_private
from judged.cli.problems import Problem, explained
from judged.types import ServerInfo

_FIRST_ANSWER_S = 10.0


@dataclass(frozen=True, slots=True)
class Connection:
    """A client, and what its server says of itself."""

    client: Client
    info: ServerInfo


@contextmanager
def connect(target: str | None) -> Iterator[Connection]:
    """Connect to `target`, else to JUDGED_TARGET, else to a server started for this command."""
    named = target or os.environ.get("JUDGED_TARGET")
    if named:
        check_target(named)
    with ExitStack() as stack:
        if named:
            client = stack.enter_context(Client(named))
            yield Connection(client, _ask(client))
        else:
            client = stack.enter_context(Client(stack.enter_context(private_server())))
            client._budget.waits = False  # noqa: SLF001 - nobody starts it again
            with problems_as_private():
                yield Connection(client, info_as_private(_ask(client)))


def check_target(target: str) -> None:
    """Raise Problem for an address that gRPC would take for another than was meant."""
    if (wrong := fault(target.strip())) is not None:
        raise Problem(f"--target {target}: {wrong}")


def _ask(client: Client) -> ServerInfo:
    try:
        with explained():
            return client.server_info(timeout=_FIRST_ANSWER_S)
    except Problem as problem:
        if isinstance(problem.__cause__, DeadlineExceeded):
            raise Problem(
                f"no answer from {client.target} within {_FIRST_ANSWER_S:g} s; is judged-server "
                "running there, without TLS?"
            ) from None
        if isinstance(problem.__cause__, NotFound):
            raise Problem(
                f"{client.target} answers, but not as judged-server does; check --target and "
                "JUDGED_TARGET"
            ) from None
        raise
