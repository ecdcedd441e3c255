"""The services and the addresses they are served on, health among them.

Anybody may ask for health, without a credential. So nothing of a request is kept, watchers are
counted, and nothing waits for one who does not read: gRPC's own servicer holds a lock while it
writes, and such a watcher kept a server from its drain.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1 import health_pb2 as pb
from judged.v1 import judge_service_pb2, statistics_service_pb2

from judged_server import errors
from judged_server.address import Address, AddressError, share_socket
from judged_server.api.authentication import Authenticator, Certificates, address_of
from judged_server.api.interceptor import CallInterceptor
from judged_server.api.requests import Call
from judged_server.api.servicer import Servicer
from judged_server.settings import Settings

WATCHERS, WATCHERS_OF_AN_ADDRESS = 1024, 256
"""At once; one takes some 20 kB. All Unix sockets together count as an address."""
_BACK_AFTER_S = 30.0
_SERVING = pb.HealthCheckResponse.SERVING
_NOT_SERVING = pb.HealthCheckResponse.NOT_SERVING
_UNKNOWN = 'no service of this server has this name; "" is the server itself'


class Health:
    """Tells whether the server serves. Used on one event loop."""

    def __init__(self, services: tuple[str, ...]) -> None:
        self._services = frozenset(("", *services))
        self._status = _NOT_SERVING
        self._is_draining = False
        self._changed = asyncio.Event()
        self._watchers: Counter[str] = Counter()

    def is_serving(self) -> bool:
        """Return whether the server takes calls and its models run."""
        return bool(self._status == _SERVING)

    def report(self, serves: bool) -> None:
        """Tell everybody from now on whether the server serves; ignored once it drains."""
        if not self._is_draining:
            self._status = _SERVING if serves else _NOT_SERVING
            self._changed.set()
            self._changed = asyncio.Event()

    def drain(self) -> None:
        """Tell everybody that the server does not serve, and nothing else any more."""
        self.report(False)
        self._is_draining = True

    async def Check(self, request: pb.HealthCheckRequest, call: Call) -> pb.HealthCheckResponse:
        """Tell the status now."""
        await self._refuse_unknown(request, call)
        return pb.HealthCheckResponse(status=self._status)

    async def List(self, _: pb.HealthListRequest, __: Call) -> pb.HealthListResponse:
        """Tell the status of all services."""
        return pb.HealthListResponse(
            statuses={name: pb.HealthCheckResponse(status=self._status) for name in self._services}
        )

    async def Watch(
        self, request: pb.HealthCheckRequest, call: Call
    ) -> AsyncIterator[pb.HealthCheckResponse]:
        """Tell the status now and whenever it changes. The interceptor ends what nobody reads.

        For an unknown service it ends at once, without a message: clients that were told
        SERVICE_UNKNOWN would watch again at once, and for ever.
        """
        await self._refuse_unknown(request, call)
        del request
        with self._counted(address_of(call.context.peer())):
            told = None
            while True:
                changed = self._changed
                if told != self._status:
                    told = self._status
                    yield pb.HealthCheckResponse(status=told)
                else:
                    await changed.wait()

    async def _refuse_unknown(self, request: pb.HealthCheckRequest, call: Call) -> None:
        if request.service not in self._services:
            await call.context.abort(grpc.StatusCode.NOT_FOUND, _UNKNOWN)

    @contextmanager
    def _counted(self, address: str) -> Iterator[None]:
        """Count a watcher for the length of a `with`. Raises Overloaded for one too many."""
        if self._watchers[address] >= WATCHERS_OF_AN_ADDRESS or self._watchers.total() >= WATCHERS:
            raise errors.Overloaded(
                f"{WATCHERS_OF_AN_ADDRESS} may watch the health of this server from one address, "
                f"{WATCHERS} in all; ask by Check",
                _BACK_AFTER_S,
            )
        self._watchers[address] += 1
        try:
            yield
        finally:
            self._watchers -= Counter([address])


JUDGE = judge_service_pb2.DESCRIPTOR.services_by_name["JudgeService"]
STATISTICS = statistics_service_pb2.DESCRIPTOR.services_by_name["StatisticsService"]
HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"]
CONTRACT = (JUDGE, STATISTICS)

CALLS_OF_A_CONNECTION = 256
"""Calls in work on one connection; clients know, and let further ones wait on their side."""

CALLS_TO_BEGIN = 4096
"""Calls of all connections that were received and not begun; gRPC cancels those beyond. It takes a
burst of many clients, since beginning a call is all that this waits for."""

SHORTEST_PING_MS = 30_000
"""How often a client may ask whether the connection still stands; ours ask once a minute."""

UNASKED_BYTES = 1 << 16
"""What gRPC receives of a message before it is asked for: most are all there by then."""

_IDENTITY_AND_GZIP = 0b101


def connection_options(settings: Settings) -> tuple[tuple[str, int], ...]:
    """Return the options of gRPC's server.

    A connection of `max_connection_age_s` takes no more calls, and ends after its last one.
    """
    age = (("grpc.max_connection_age_ms", 1000 * settings.max_connection_age_s),)
    return (
        *(age if settings.max_connection_age_s else ()),
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", CALLS_OF_A_CONNECTION),
        # Windows grow with messages that are asked for, and not with what the network could carry:
        # else gRPC takes in megabytes of each message that nobody has asked for.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", UNASKED_BYTES),
        # What is compressed comes as it is, and `requests` inflates it where there is room; it
        # knows gzip, and the other one, deflate, is refused as UNIMPLEMENTED.
        ("grpc.per_message_decompression", 0),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_AND_GZIP),
        # On by default, it counts a call that has just ended as one in work, and so refuses those
        # of a client that keeps to the limit: 243 of 3,000 calls at once, retries included.
        ("grpc.http.overload_protection", 0),
        # By default calls are cancelled at random from 1,000 on, four busy clients.
        ("grpc.server.max_pending_requests", CALLS_TO_BEGIN),
        ("grpc.server.max_pending_requests_hard_limit", CALLS_TO_BEGIN),
        # Without this a client that pings through a call of minutes is cut off as a flood.
        ("grpc.http2.min_ping_interval_without_data_ms", SHORTEST_PING_MS),
    )


@dataclass(frozen=True, slots=True)
class Listener:
    """An address, and who calls by it: everybody, without `callers`."""

    address: Address
    callers: Authenticator | None = None
    certificates: Certificates | None = None


@dataclass(slots=True)
class Services:
    """What answers calls, all through one interceptor. Used on one event loop."""

    servicer: Servicer
    health: Health
    interceptor: CallInterceptor
    server: grpc.aio.Server | None = None
    address: Address | None = None

    def contract(
        self, callers: Authenticator | None
    ) -> dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]]:
        """Return the handlers of the contract, by service and method, for an address's callers."""
        return {
            service.full_name: self.interceptor.handlers(service, self.servicer, callers)
            for service in CONTRACT
        }

    def register_health(self, server: grpc.aio.Server) -> None:
        """Add the health service, which serves everybody: that a server runs is no secret.

        gRPC hands over one call at a time, in the order in which they came, of all the methods that
        it finds handlers for when they are called. Those of a method that it knows beforehand, as
        of this service, stand in a line of their own, so that no check waits for other calls.
        """
        handlers = self.interceptor.handlers(HEALTH, self.health, limited=False)
        server.add_registered_method_handlers(HEALTH.full_name, handlers)

    async def open(self, listener: Listener, settings: Settings) -> Address:
        """Listen, and return where; raises AddressError."""
        self.server = server = grpc.aio.server(options=connection_options(settings))
        for service, handlers in self.contract(listener.callers).items():
            finder = grpc.method_handlers_generic_handler(service, handlers)
            server.add_generic_rpc_handlers((finder,))
        self.register_health(server)
        self.address = _bind(server, listener, settings)
        await server.start()
        return self.address

    async def close(self, grace_s: float) -> None:
        """Take no more calls; end those that are left after some seconds."""
        if self.server is not None:
            await self.server.stop(grace_s)
        self.remove_socket()

    def remove_socket(self) -> None:
        """Remove the file that says that a server is here."""
        if self.address is not None and self.address.path is not None:
            self.address.path.unlink(missing_ok=True)


def _bind(server: grpc.aio.Server, listener: Listener, settings: Settings) -> Address:
    address = listener.address
    # Nobody else's from the moment the socket exists; owner, group and mode follow.
    mask = os.umask(0o177) if address.path is not None else None
    try:
        if listener.certificates is None:
            port = server.add_insecure_port(str(address))
        else:
            port = server.add_secure_port(str(address), listener.certificates.credentials())
    except RuntimeError:
        raise AddressError(
            f"listen: can't listen on {address}; is another server there, or the path not to be "
            "written to?"
        ) from None
    finally:
        if mask is not None:
            os.umask(mask)
    if address.path is None:
        return Address(address.host, port)
    share_socket(address.path, settings.socket_mode, settings.socket_group)
    return address
