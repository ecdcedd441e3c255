"""The services, health among them, and the addresses they are served on.

Health checks need no credential. So nothing of a request is kept, the number of watchers is
limited, and nothing waits for a watcher that does not read. gRPC's own health servicer holds a lock
while it writes; such a watcher blocked the server's drain.
"""

from __future__ import annotations

import asyncio
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
from judged_server.address import Address, AddressError, socket_mode
from judged_server.api.authentication import Authenticator, Certificates, address_of
from judged_server.api.interceptor import CallInterceptor
from judged_server.api.requests import Call
from judged_server.api.servicer import Servicer
from judged_server.settings import Settings

WATCHERS, WATCHERS_OF_AN_ADDRESS = 1024, 256
"""The most watchers at a time; one takes some 20 kB. All Unix sockets count as one address."""
_BACK_AFTER_S = 30.0
_SERVING = pb.HealthCheckResponse.SERVING
_NOT_SERVING = pb.HealthCheckResponse.NOT_SERVING
_UNKNOWN = 'no service of this server has this name; "" is the server itself'


class Health:
    """The health service: reports whether the server serves. Used on one event loop."""

    def __init__(self, services: tuple[str, ...]) -> None:
        self._services = frozenset(("", *services))
        self._status = _NOT_SERVING
        self._is_draining = False
        self._changed = asyncio.Event()
        self._watchers: Counter[str] = Counter()

    def is_serving(self) -> bool:
        """Return whether the server accepts calls and its models run."""
        return bool(self._status == _SERVING)

    def report(self, serves: bool) -> None:
        """Set the status for all services; ignored once the server drains."""
        if not self._is_draining:
            self._status = _SERVING if serves else _NOT_SERVING
            self._changed.set()
            self._changed = asyncio.Event()

    def drain(self) -> None:
        """Set the status to NOT_SERVING for good."""
        self.report(False)
        self._is_draining = True

    async def Check(self, request: pb.HealthCheckRequest, call: Call) -> pb.HealthCheckResponse:
        """Return the current status."""
        await self._refuse_unknown(request, call)
        return pb.HealthCheckResponse(status=self._status)

    async def Watch(
        self, request: pb.HealthCheckRequest, call: Call
    ) -> AsyncIterator[pb.HealthCheckResponse]:
        """Yield the current status, then each change. The interceptor ends unread streams.

        For an unknown service it ends at once without a message: on SERVICE_UNKNOWN clients would
        watch again at once, endlessly.
        """
        await self._refuse_unknown(request, call)
        del request
        with self._counted(address_of(call.context.peer())):
            sent = None
            while True:
                changed = self._changed
                if sent != self._status:
                    sent = self._status
                    yield pb.HealthCheckResponse(status=sent)
                else:
                    await changed.wait()

    async def _refuse_unknown(self, request: pb.HealthCheckRequest, call: Call) -> None:
        if request.service not in self._services:
            await call.context.abort(grpc.StatusCode.NOT_FOUND, _UNKNOWN)

    @contextmanager
    def _counted(self, address: str) -> Iterator[None]:
        """Count a watcher for the duration of a `with`. Raises Overloaded above the limits."""
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
"""Calls in work on one connection. Clients know this limit and queue further calls themselves."""

CALLS_TO_BEGIN = 4096
"""Calls of all connections received and not begun; gRPC cancels any beyond. Since calls begin at
once, only a burst of many clients reaches it."""

LONGEST_STOP_S = 1.0
"""How long gRPC may take to stop, once calls have ended."""

SHORTEST_PING_MS = 30_000
"""The shortest interval of a client's keepalive pings; our client pings once a minute."""

UNASKED_BYTES = 1 << 16
"""What gRPC receives of a message before the server reads it; most messages are no larger."""

_IDENTITY_AND_GZIP = 0b101


def connection_options(settings: Settings) -> tuple[tuple[str, int], ...]:
    """Return the options of gRPC's server.

    A connection older than `max_connection_age_s` takes no new calls and ends after its last one.
    """
    age = (("grpc.max_connection_age_ms", 1000 * settings.max_connection_age_s),)
    return (
        *(age if settings.max_connection_age_s else ()),
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", settings.max_message_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", CALLS_OF_A_CONNECTION),
        # Flow-control windows grow with the messages that the server reads, not with the network's
        # capacity: else gRPC buffers megabytes of each message before it is read.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", UNASKED_BYTES),
        # Messages arrive compressed, and `requests` inflates them once there is room. It supports
        # gzip only; deflate is rejected as UNIMPLEMENTED.
        ("grpc.per_message_decompression", 0),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_AND_GZIP),
        # On by default. It counts a call that has just ended as one in work, and so rejects calls
        # of a client that keeps the limit: 243 of 3,000 concurrent calls, retries included.
        ("grpc.http.overload_protection", 0),
        # By default calls are cancelled at random above 1,000: four busy clients.
        ("grpc.server.max_pending_requests", CALLS_TO_BEGIN),
        ("grpc.server.max_pending_requests_hard_limit", CALLS_TO_BEGIN),
        # By default a client that pings during a call of minutes is disconnected as a flood.
        ("grpc.http2.min_ping_interval_without_data_ms", SHORTEST_PING_MS),
    )


@dataclass(frozen=True, slots=True)
class Listener:
    """An address and how its callers are authenticated; not at all without `callers`."""

    address: Address
    callers: Authenticator | None = None
    certificates: Certificates | None = None


@dataclass(slots=True)
class Services:
    """The gRPC server with its services, all behind one interceptor. Used on one event loop."""

    servicer: Servicer
    health: Health
    interceptor: CallInterceptor
    server: grpc.aio.Server | None = None

    def contract(
        self, callers: Authenticator | None
    ) -> dict[str, dict[str, grpc.RpcMethodHandler[Any, Any]]]:
        """Return the contract's handlers by service and method, for one address's callers."""
        return {
            service.full_name: self.interceptor.handlers(service, self.servicer, callers)
            for service in CONTRACT
        }

    def register_health(self, server: grpc.aio.Server) -> None:
        """Add the health service, which needs no credential: that a server runs is no secret.

        gRPC keeps one queue for all calls whose handlers it looks up when they arrive, and hands
        them over one at a time. Registered methods, as here, have queues of their own, so health
        checks don't wait for other calls.
        """
        handlers = self.interceptor.handlers(HEALTH, self.health, limited=False)
        server.add_registered_method_handlers(HEALTH.full_name, handlers)

    async def open(self, listener: Listener, settings: Settings) -> Address:
        """Listen, and return the address. Raises AddressError."""
        self.server = server = grpc.aio.server(options=connection_options(settings))
        for service, handlers in self.contract(listener.callers).items():
            finder = grpc.method_handlers_generic_handler(service, handlers)
            server.add_generic_rpc_handlers((finder,))
        self.register_health(server)
        address = _bind(server, listener, settings)
        await server.start()
        return address

    async def close(self, grace_s: float) -> None:
        """Take no more calls; end those that are still in work after `grace_s`.

        Connections are ended with the process where gRPC can't: it waits for a flood of pings.
        """
        if self.server is not None:
            stopping = asyncio.create_task(self.server.stop(grace_s))
            await asyncio.wait({stopping}, timeout=LONGEST_STOP_S)


def _bind(server: grpc.aio.Server, listener: Listener, settings: Settings) -> Address:
    address = listener.address
    try:
        with socket_mode(settings.socket_mode):
            if listener.certificates is None:
                port = server.add_insecure_port(str(address))
            else:
                port = server.add_secure_port(str(address), listener.certificates.credentials())
    except RuntimeError:
        raise AddressError(
            f"listen: can't listen on {address}; is another server there, or the path longer than "
            "107 bytes or not to be written to?"
        ) from None
    return Address(address.host, port) if address.path is None else address
