"""The connection under a client, for threads or for event loops, and the options of its calls."""

from __future__ import annotations

import asyncio
import copy
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, Self, TypeVar, cast

import grpc

from judged import errors
from judged._inputs import need_kind
from judged._transport.access import Authorization, TlsChannel, refuse_unsafe, tls_options
from judged._transport.call import Attempts, CallOptions, Deadline, RetryBudget
from judged._transport.channel import (
    OPTIONS,
    forked,
    refuse_unusable,
    refuse_wrong,
    resolve,
    socket_path,
    used,
)
from judged._transport.status import Failure, to_error
from judged._transport.window import Window
from judged.credentials import Credentials, Tls, Token
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub
from judged.v1.statistics_service_pb2_grpc import StatisticsServiceStub

if TYPE_CHECKING:
    from judged.v1.judge_service_pb2_grpc import JudgeServiceAsyncStub
    from judged.v1.statistics_service_pb2_grpc import StatisticsServiceAsyncStub

    AsyncStubs = tuple[JudgeServiceAsyncStub, StatisticsServiceAsyncStub]
    _AsyncChannel = grpc.aio.Channel | TlsChannel[grpc.aio.Channel]

CLOSED = (ValueError, grpc.aio.UsageError)
"""What gRPC raises for a channel that was closed."""


class _Connection:
    """What both kinds of connection know of their server."""

    def __init__(self, target: str | None, credentials: Credentials | None, *, given: bool) -> None:
        """Raise InvalidArgument for what can't go together; `given` says that the channel was."""
        self.target = resolve(target)
        if credentials is not None:
            what = "Token(...) or Tls(...) of judged.credentials"
            need_kind(credentials, "credentials", (Token, Tls), what)
        if not given:
            refuse_wrong(self.target)
            refuse_unsafe(self.target, credentials)
        elif credentials is not None:
            raise errors.InvalidArgument.of_field(
                "credentials", "a channel that is given has its own; leave out one of the two"
            )
        self._tls = credentials if isinstance(credentials, Tls) else None
        self._closed = False
        token = credentials.token if isinstance(credentials, Tls) else credentials
        # gRPC tells a server which connection of TCP a call came by, and of a Unix socket nothing.
        is_socket = socket_path(self.target) is not None
        channel = (("x-judged-channel", secrets.token_hex(8)),) if is_socket else ()
        self.budget = RetryBudget(authorization=Authorization(token), channel=channel)
        self.window = Window()

    def need_open(self) -> None:
        """Raise ClientUnusable after `close`, and after some forks."""
        refuse_unusable(was_closed=self._closed)

    def error_of(self, failure: grpc.RpcError) -> errors.JudgedError:
        """Return what a failed call means. Raises ClientUnusable where `close` ended it."""
        self.need_open()
        return to_error(cast("Failure", failure), self.target)

    def waits(self, failure: grpc.RpcError, attempts: Attempts) -> Iterator[float]:
        """Return the waits before the next try of a message; they raise the error for none."""
        error = self.error_of(failure)
        if isinstance(error, errors.Overloaded) and error.retry_after is not None:
            self.window.turned_away()
        return attempts.waits(error)

    def answered(self) -> None:
        """Note a message that was answered."""
        self.budget.answered()
        self.window.answered()


class Connection(_Connection):
    """A connection of the synchronous client."""

    def __init__(
        self,
        target: str | None = None,
        *,
        credentials: Credentials | None = None,
        channel: grpc.Channel | None = None,
    ) -> None:
        """Connect as `Client` does. Raises InvalidArgument for what can't be used."""
        super().__init__(target, credentials, given=channel is not None)
        self._opened: TlsChannel[grpc.Channel] | grpc.Channel | None = None
        if channel is None:
            self.need_open()
            if self._tls is None:
                self._opened = channel = grpc.insecure_channel(self.target, options=OPTIONS)
            else:
                options = tls_options(self._tls)
                open_ = partial(grpc.secure_channel, self.target, options=options)
                self._opened = TlsChannel(self._tls, open_)
                channel = cast("grpc.Channel", self._opened)
        used()
        self._stubs = JudgeServiceStub(channel), StatisticsServiceStub(channel)

    @property
    def judging(self) -> JudgeServiceStub:
        """The calls of JudgeService. Raises ClientUnusable after `close`, and after some forks."""
        self.need_open()
        return self._stubs[0]

    @property
    def statistics(self) -> StatisticsServiceStub:
        """The calls of StatisticsService; as `judging`."""
        self.need_open()
        return self._stubs[1]

    def close(self) -> None:
        """Close the connection. Calls under way end with ClientUnusable, and so do later ones."""
        self._closed = True
        if self._opened is not None and not forked():
            opened = self._opened
            for channel in opened.opened if isinstance(opened, TlsChannel) else (opened,):
                channel.close()


class AsyncConnection(_Connection):
    """A connection of the asynchronous client: a channel for each event loop."""

    def __init__(
        self,
        target: str | None = None,
        *,
        credentials: Credentials | None = None,
        channel: grpc.aio.Channel | None = None,
    ) -> None:
        """Connect as `AsyncClient` does. Raises InvalidArgument for what can't be used."""
        super().__init__(target, credentials, given=channel is not None)
        self._given = (
            None if channel is None else (JudgeServiceStub(channel), StatisticsServiceStub(channel))
        )
        self._opened: dict[asyncio.AbstractEventLoop, tuple[_AsyncChannel, AsyncStubs]] = {}

    @property
    def judging(self) -> JudgeServiceAsyncStub:
        """The calls of JudgeService. Raises ClientUnusable after `close`, and after some forks."""
        return self._stubs()[0]

    @property
    def statistics(self) -> StatisticsServiceAsyncStub:
        """The calls of StatisticsService; as `judging`."""
        return self._stubs()[1]

    def _stubs(self) -> AsyncStubs:
        """Both services, over the channel of the running loop."""
        self.need_open()
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._opened:
            for other in [other for other in self._opened if other.is_closed()]:
                del self._opened[other]
            channel: _AsyncChannel
            if self._tls is None:
                channel = grpc.aio.insecure_channel(self.target, options=OPTIONS)
            else:
                options = tls_options(self._tls)
                open_ = partial(grpc.aio.secure_channel, self.target, options=options)
                channel = TlsChannel(self._tls, open_)
            of_stubs = cast("grpc.aio.Channel", channel)
            stubs = JudgeServiceStub(of_stubs), StatisticsServiceStub(of_stubs)
            self._opened[loop] = channel, stubs
            used()
        return self._opened[loop][1]

    async def close(self) -> None:
        """Close the connection. Calls under way end with ClientUnusable, and so do later ones."""
        self._closed = True
        mine = self._opened.pop(asyncio.get_running_loop(), None)
        self._opened.clear()  # those of other loops close as they are let go
        if mine is not None and not forked():
            channel = mine[0]
            for each in channel.opened if isinstance(channel, TlsChannel) else (channel,):
                await each.close()


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
                raise errors.InvalidArgument.of_field(
                    name, "must be a whole number, 0 or more, or None"
                )
            read[name] = value
        else:
            need_kind(value, name, Mapping, "a mapping of names to texts")
            read[name] = _pairs(value)  # type: ignore[arg-type]  # checked above
    return read


def _pairs(metadata: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return metadata as gRPC takes it: names in small letters."""
    for name, value in metadata.items():
        if not (isinstance(name, str) and isinstance(value, str)):
            raise errors.InvalidArgument.of_field("metadata", "must map names to texts")
        if name.lower() in ("x-request-id", "authorization") or name.lower().startswith("grpc-"):
            rule = f"has {name!r}, which the client sets itself; use credentials= for tokens"
            raise errors.InvalidArgument.of_field("metadata", rule)
    return tuple((name.lower(), value) for name, value in metadata.items())
