"""What both clients have beside their calls: a connection, and options for how to call."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Generic, Self, TypeVar

from judged._inputs import need_kind
from judged._transport.call import CallOptions, Deadline
from judged._transport.connection import AsyncConnection, Connection
from judged.errors import InvalidArgument

ConnectionT = TypeVar("ConnectionT", bound=Connection | AsyncConnection)

JUDGING_S = 600.0
STREAM_S = 3600.0
COMPUTING_S = 120.0
INFO_S = 10.0
"""Seconds that calls have where nobody says otherwise, by what they do."""


@dataclass(frozen=True, slots=True)
class Unset:
    """Stands for an option that is left as it is, where None means something else."""


UNSET = Unset()


class BaseClient(Generic[ConnectionT]):
    """A client without its calls."""

    def __init__(self, connection: ConnectionT, options: CallOptions) -> None:
        self._connection = connection
        self._options = options

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.target!r})"

    @property
    def target(self) -> str:
        """The address of the server."""
        return self._connection.target

    def with_options(
        self,
        *,
        timeout: float | Unset | None = UNSET,
        max_retries: int | Unset | None = UNSET,
        metadata: Mapping[str, str] | Unset | None = UNSET,
    ) -> Self:
        """Return a client with other options over the same connection; this one stays as it is.

        `timeout` is the seconds that each call has as a whole, unless it gets a `timeout` of its
        own: None means what the call needs at most, 10 minutes to judge, an hour for streams,
        evaluations and scores, 2 minutes to compute. `max_retries` is how often a message is sent
        again that was not answered, or a stream that brought nothing: None means while its time
        lasts. `metadata` is sent along with every call. What is left out stays as it is. To close
        one closes all.
        """
        changes = {"timeout": timeout, "max_retries": max_retries, "metadata": metadata}
        given = {name: value for name, value in changes.items() if not isinstance(value, Unset)}
        made = copy.copy(self)
        options = replace(self._options, **read_options(**given))  # type: ignore[arg-type]
        made._options = options  # noqa: SLF001 - a copy of ours
        return made

    def _deadline(self, timeout: float | None, usual: float) -> Deadline:
        """Return the time of a call: its own, else that of the client, else the usual one."""
        if timeout is None:
            timeout = usual if self._options.timeout is None else self._options.timeout
        return Deadline(timeout, self._options)


def read_options(**given: object) -> dict[str, object]:
    """Return options as CallOptions has them. Raises InvalidArgument for what none can be."""
    read: dict[str, object] = {}
    for name, value in given.items():
        if value is None:
            read[name] = () if name == "metadata" else None
        elif name == "timeout":
            read[name] = Deadline(value).timeout  # type: ignore[arg-type]  # checks what it gets
        elif name == "max_retries":
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise InvalidArgument.of_field(name, "must be a whole number, 0 or more, or None")
            read[name] = value
        else:
            need_kind(value, name, Mapping, "a mapping of names to texts")
            read[name] = _pairs(value)  # type: ignore[arg-type]  # checked above
    return read


def _pairs(metadata: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return metadata as gRPC takes it: names in small letters."""
    for name, value in metadata.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise InvalidArgument.of_field("metadata", "must map names to texts")
        if name.lower() in ("x-request-id", "authorization") or name.lower().startswith("grpc-"):
            rule = f"has {name!r}, which the client sets itself; use credentials= for tokens"
            raise InvalidArgument.of_field("metadata", rule)
    return tuple((name.lower(), value) for name, value in metadata.items())
