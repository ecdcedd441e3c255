"""Health, as grpc.health.v1 asks for it: one status for the server and all its services.

Anybody may ask, without a credential. So nothing of a request is kept, watchers are counted, and
nothing waits for one who does not read: gRPC's own servicer holds a lock while it writes, and such
a watcher kept a server from its drain.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import grpc
from grpc_health.v1 import health_pb2 as pb

from judged_server import errors
from judged_server.api.authentication import address_of
from judged_server.api.requests import Call

WATCHERS, WATCHERS_OF_AN_ADDRESS = 1024, 256
"""At once; one takes some 20 kB. All Unix sockets together count as an address."""
_SERVING = pb.HealthCheckResponse.SERVING
_NOT_SERVING = pb.HealthCheckResponse.NOT_SERVING
_BACK_AFTER_S = 30.0
_UNKNOWN = 'no service of this server has this name; "" is the server itself'


class Health:
    """Tells whether the server serves. Used on one event loop."""

    def __init__(self, services: tuple[str, ...]) -> None:
        self._services = frozenset(("", *services))
        self._status = _NOT_SERVING
        self._is_draining = False
        self._changed = asyncio.Event()
        self._watchers: Counter[str] = Counter()

    @property
    def is_serving(self) -> bool:
        """Whether the server takes calls and its models run."""
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
            self._watchers[address] -= 1
            if not self._watchers[address]:
                del self._watchers[address]
