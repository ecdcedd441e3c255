"""The connection of a client, for threads or event loops, and the options of its calls.

Covers the address, the settings of the channel, TLS and the token.
"""

from __future__ import annotations

import asyncio
import copy
import ipaddress
import os
import re
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar

import grpc

from judged import errors
from judged._transport.call import Attempts, CallOptions, Deadline, Metadata, Patience, to_error
from judged.credentials import Credentials, File, Tls, Token, check_token
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub
from judged.v1.statistics_service_pb2_grpc import StatisticsServiceStub

DEFAULT_TARGET = "127.0.0.1:8470"

OPTIONS: tuple[tuple[str, int | str], ...] = (
    # A name with several addresses is a service with several replicas: calls rotate among them.
    ("grpc.lb_policy_name", "round_robin"),
    # The client retries by itself: a service config can't tell a busy server from a message that
    # is too large.
    ("grpc.enable_retries", 0),
    # gRPC uses http_proxy even for this machine, and without TLS the proxy can read everything.
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    # gRPC's default backoff between connects grows to two minutes, during which all calls fail.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),
)


_LONGEST_SOCKET_PATH = 107
"""The limit of a Unix socket's path, in bytes."""
_OF_GRPC = re.compile(r"(dns|ipv4|ipv6|unix-abstract|vsock|xds|google-c2p):", re.IGNORECASE)
_HOST_PORT = re.compile(r"(\[[^]]+\]|[^:/]+):(?P<port>[0-9]{1,5})")
_LAST_PORT = 65_535


def refuse_wrong(target: str) -> None:
    """Raise InvalidArgument for an address that gRPC would accept but misread.

    gRPC uses port 443 for an address without one, reads what precedes "://" as a name, and wraps
    a port that is too large.
    """
    if (path := socket_path(target)) is not None:
        right = 0 < len(os.fsencode(path)) <= _LONGEST_SOCKET_PATH
    elif parts := _HOST_PORT.fullmatch(target):
        right = 0 < int(parts["port"]) <= _LAST_PORT
    else:
        right = bool(_OF_GRPC.match(target))
    if not right:
        how = f"write HOST:PORT without a scheme, as in {DEFAULT_TARGET}, or unix:PATH, of"
        rule = f"{target!r}: {how} {_LONGEST_SOCKET_PATH} bytes at most"
        raise errors.InvalidArgument.of_field("target", rule)


def socket_path(target: str) -> str | None:
    """Return the path of a Unix socket; None for other addresses."""
    if not target.startswith("unix:"):
        return None
    return target.removeprefix("unix:").removeprefix("//")


USED_BY: set[int] = set()
"""Ids of the processes that used gRPC: this one and those that it was forked from.

gRPC's threads do not survive a fork.
"""


def forked() -> bool:
    """Return whether this process was forked from one that had used gRPC: gRPC may hang here.

    A closed client counts too: gRPC's threads end some time after the close, without a signal. Of
    600 forks right after a close, 34 hung.
    """
    return bool(USED_BY - {os.getpid()})


def refuse_unsafe(target: str, credentials: Credentials | None) -> None:
    """Raise InvalidArgument for a token that would be sent over a network in clear text.

    Also for credentials of the wrong type, and for TLS that does not suit the target.
    """
    if not isinstance(credentials, Token | Tls | None):
        given = type(credentials).__name__
        rule = f"must be Token(...) or Tls(...) of judged.credentials, not {given}"
    elif isinstance(credentials, Token) and not is_local(target):
        rule = (
            f"a token is not sent to {target} without TLS, where others could read it; use "
            "Tls(token=...), or --tls-ca with a command"
        )
    elif isinstance(credentials, Tls) and socket_path(target) is not None:
        rule = f"{target} is a Unix socket, which has no TLS; give the Token alone"
    elif isinstance(credentials, Tls) and "," in target and credentials.name is None:
        rule = (
            "a list of addresses has no name that certificates could have; give the one that all "
            "of theirs have, by Tls(name=...) or --tls-name"
        )
    else:
        return
    raise errors.InvalidArgument.of_field("credentials", rule)


def is_local(target: str) -> bool:
    """Return whether an address is on this machine; "localhost" is the only name that is."""
    if target.startswith(("unix:", "unix-abstract:")):
        return True
    host = target.rpartition(":")[0].rpartition("/")[2].removeprefix("ipv4:").removeprefix("ipv6:")
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _pem(file: File | None) -> bytes | None:
    if file is None:
        return None
    try:
        content = Path(file).read_bytes()
    except OSError as error:
        raise _unreadable("file", Path(file), error) from None
    if b"-----BEGIN" not in content:
        raise errors.InvalidArgument.of_field("credentials", f"{os.fspath(file)} is no PEM file")
    return content


def _unreadable(what: str, file: Path, error: Exception) -> errors.InvalidArgument:
    why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"
    return errors.InvalidArgument.of_field("credentials", f"the {what} {file} can't be read: {why}")


CLOSED = (ValueError, grpc.aio.UsageError)
"""Exceptions that gRPC raises for a closed channel."""


IN_FLIGHT = 64
"""The most messages in flight; further calls wait in the client."""


class _Opened(NamedTuple):
    """The channel of a thread or loop, its methods by name, and a semaphore for calls in flight."""

    channel: Any
    methods: Mapping[str, Any]
    window: Any


class _Connection:
    """The common part of both kinds of connection."""

    _grpc: Any
    """The module with the functions that open a channel."""
    _semaphore: Callable[[int], Any]

    def __init__(
        self,
        target: str | None = None,
        *,
        credentials: Credentials | None = None,
        channel: Any = None,  # noqa: ANN401 - of either kind
    ) -> None:
        """Connect as `Client` does. Raises InvalidArgument for invalid arguments."""
        self.target = (target or os.environ.get("JUDGED_TARGET") or DEFAULT_TARGET).strip()
        if channel is None:
            refuse_wrong(self.target)
            refuse_unsafe(self.target, credentials)
        elif credentials is not None:
            raise errors.InvalidArgument.of_field(
                "credentials", "a channel that is given has its own; leave out one of the two"
            )
        token = credentials.token if isinstance(credentials, Tls) else credentials
        self._token_file = None if token is None or token.file is None else Path(token.file)
        self._token = "" if token is None else token.value
        self._credentials, options = None, dict(OPTIONS)
        if isinstance(credentials, Tls):
            files = credentials.ca, credentials.key, credentials.certificate
            self._credentials = grpc.ssl_channel_credentials(*map(_pem, files))
            if credentials.proxy is not None:
                del options["grpc.enable_http_proxy"]
                options["grpc.http_proxy"] = credentials.proxy
            if credentials.name is not None:
                options["grpc.default_authority"] = credentials.name
        self._options = tuple(options.items())
        self._given = channel
        self._opened: dict[asyncio.AbstractEventLoop | None, _Opened] = {}
        self._lock = threading.Lock()
        self._closed = False
        # gRPC tells a server the peer of a TCP connection, but nothing about a Unix socket's.
        is_socket = socket_path(self.target) is not None
        self._channel_id = (("x-judged-channel", secrets.token_hex(8)),) if is_socket else ()
        self.patience = Patience()

    def need_open(self) -> None:
        """Raise ClientUnusable after `close`, and after some forks."""
        if self._closed:
            raise errors.ClientUnusable(
                "the client is closed; make another, or call it before it is closed"
            )
        if forked():
            raise errors.ClientUnusable(
                "this process was forked after a client had been made, and gRPC may hang in it for "
                "ever; make clients after the fork only, or start processes by spawn or forkserver"
            )

    def attempts(self, deadline: Deadline, request: object | None = None) -> Attempts:
        """Return the tries of a message, with the caller's identity in their metadata."""
        return Attempts(deadline, self.patience, self.metadata, request)

    def metadata(self) -> Metadata:
        """Return the caller's identity as metadata. Raises InvalidArgument for a bad token file."""
        if self._token_file is not None:
            try:
                token = self._token_file.read_text("utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                if not self._token:
                    raise _unreadable("token file", self._token_file, error) from None
                # The file is being replaced: keep the last token.
            else:
                check_token(token, f"credentials: the token file {self._token_file}")
                self._token = token
        bearer = (("authorization", f"Bearer {self._token}"),) if self._token else ()
        return (*bearer, *self._channel_id)

    def error_of(self, failure: Exception) -> errors.JudgedError:
        """Return the error of a failed call. Raises ClientUnusable if `close` ended it."""
        if isinstance(failure, errors.JudgedError):
            return failure
        self.need_open()
        return to_error(failure, self.target)

    def channel(self) -> Any:  # noqa: ANN401 - of either kind
        """Return the channel, to send serialized messages. Raises ClientUnusable."""
        return self.here().channel

    def here(self) -> _Opened:
        """Return this thread's or loop's channel, opened on first use. Raises ClientUnusable."""
        self.need_open()
        loop = self._loop()
        with self._lock:
            if (opened := self._opened.get(loop)) is None:
                for other in [each for each in self._opened if each and each.is_closed()]:
                    del self._opened[other]
                USED_BY.add(os.getpid())
                channel = self._channel() if self._given is None else self._given
                methods = vars(JudgeServiceStub(channel)) | vars(StatisticsServiceStub(channel))
                opened = _Opened(channel, methods, self._semaphore(IN_FLIGHT))
                self._opened[loop] = opened
        return opened

    def _channel(self) -> Any:  # noqa: ANN401 - of either kind
        if self._credentials is None:
            return self._grpc.insecure_channel(self.target, options=self._options)
        return self._grpc.secure_channel(self.target, self._credentials, options=self._options)

    def _loop(self) -> asyncio.AbstractEventLoop | None:
        """Return the loop that a channel belongs to; None for threads."""
        return None

    def _release(self) -> Any:  # noqa: ANN401 - a channel of either kind
        """Drop all channels; return the one that the caller must close, if any."""
        self._closed = True
        mine = self._opened.pop(self._loop(), None)
        self._opened.clear()  # channels of other loops close when they are freed
        return None if mine is None or forked() or self._given is not None else mine.channel


class Connection(_Connection):
    """A connection of the synchronous client."""

    _grpc = grpc
    _semaphore = threading.BoundedSemaphore

    def __init__(self, target: str | None = None, **given: Any) -> None:  # noqa: ANN401 - as above
        super().__init__(target, **given)
        self.here()  # opens the channel

    def close(self) -> None:
        """Close the connection. Calls in flight and later calls raise ClientUnusable."""
        if (channel := self._release()) is not None:
            channel.close()


class AsyncConnection(_Connection):
    """A connection of the asynchronous client: a channel for each event loop."""

    _grpc = grpc.aio
    _semaphore = asyncio.BoundedSemaphore

    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def close(self) -> None:
        """Close the connection. Calls in flight and later calls raise ClientUnusable."""
        if (channel := self._release()) is not None:
            await channel.close()


ConnectionT = TypeVar("ConnectionT", bound=Connection | AsyncConnection)
ChannelT = TypeVar("ChannelT")

JUDGING_S = 600.0
STREAM_S = 3600.0
COMPUTING_S = 120.0
INFO_S = 10.0
"""Default timeouts in seconds, by kind of call."""


class BaseClient(Generic[ConnectionT, ChannelT]):
    """The base of both clients: the connection and the options, without the calls."""

    _connection_class: type[ConnectionT]

    def __init__(
        self,
        target: str | None = None,
        *,
        credentials: Credentials | None = None,
        channel: ChannelT | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """Connect to `target` ("HOST:PORT", "unix:PATH"), else JUDGED_TARGET, else the default.

        If a name has several addresses, calls rotate among them. `credentials` are a Token or Tls.
        `channel` is used instead of a new connection and is not closed. The other options are those
        of `with_options`. Raises InvalidArgument for invalid arguments.
        """
        self._options = CallOptions(timeout, max_retries, metadata)
        self._connection = self._connection_class(target, credentials=credentials, channel=channel)

    @property
    def target(self) -> str:
        """The address of the server."""
        return self._connection.target

    def with_options(
        self,
        *,
        timeout: float | None = None,
        max_retries: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Self:
        """Return a client with other options over the same connection; this one is unchanged.

        `timeout` is the limit in seconds of each call as a whole, unless the call sets its own. The
        default is 10 minutes to judge, an hour for streams, evaluations and scores, and 2 minutes
        to compute. `max_retries` limits how often an unanswered message, or a stream that brought
        nothing, is sent again; the default is no limit until the timeout. `metadata` is sent with
        every call. Options left out are kept. Closing one of these clients closes them all.
        """
        changes = {"timeout": timeout, "max_retries": max_retries, "metadata": metadata}
        given = {name: value for name, value in changes.items() if value is not None}
        made = copy.copy(self)
        options = replace(self._options, **given)  # type: ignore[arg-type]  # their names
        made._options = options  # noqa: SLF001 - a copy of ours
        return made

    def _deadline(self, timeout: float | None, usual: float) -> Deadline:
        """Return the deadline of a call: by its own timeout, else the client's, else the usual."""
        if timeout is None:
            timeout = usual if self._options.timeout is None else self._options.timeout
        return Deadline(timeout, self._options)
