"""The places that a tenant may take at one provider: so many of its requests are there at a time.

A request waits for a place of its tenant before it waits for one of the provider's. So a tenant
that has used up its own holds up nobody else, and what it asks waits in the order it came.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.transport.clock import Clock
from judged_server.tenant import current_tenant


@dataclass(slots=True)
class _Places:
    taken: int = 0
    waiting: deque[asyncio.Future[None]] = field(default_factory=deque)


class TenantSlots:
    """The places of all tenants at one provider; used on one event loop."""

    def __init__(self, provider: str, clock: Clock) -> None:
        self._provider = provider
        self._clock = clock
        self._places: dict[str, _Places] = {}

    @asynccontextmanager
    async def place(self, ends: float) -> AsyncIterator[None]:
        """Hold a place of the tenant of the call in work, for which it waits until `ends`.

        A tenant without a limit waits for none. Raises ProviderFault, of no attempt.
        """
        tenant = current_tenant()
        if tenant.provider_slots is None:
            yield
            return
        places = self._places.setdefault(tenant.name, _Places())
        if places.waiting or places.taken >= tenant.provider_slots:
            await self._wait(places, ends, tenant.provider_slots)
        else:
            places.taken += 1
        try:
            yield
        finally:
            self._leave(tenant.name, places)

    async def _wait(self, places: _Places, ends: float, most: int) -> None:
        freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        places.waiting.append(freed)
        try:
            async with asyncio.timeout(ends - self._clock.now()):
                await freed
        except BaseException as error:
            if freed.done() and not freed.cancelled():
                self._leave(current_tenant().name, places)  # it came together with the end
            elif freed in places.waiting:  # else one who left has passed it over already
                places.waiting.remove(freed)
            if isinstance(error, TimeoutError):
                raise ProviderFault(
                    Reason.TIMEOUT,
                    f"provider {self._provider}: {most} of your questions are there, and you may "
                    "have no more at a time (provider_slots) for longer than the call may take",
                    retryable=True,
                    attempts=0,
                ) from None
            raise

    def _leave(self, tenant: str, places: _Places) -> None:
        """Give a place to the one who waits longest, or back."""
        while places.waiting:
            freed = places.waiting.popleft()
            if not freed.done():
                freed.set_result(None)
                return
        places.taken -= 1
        if not places.taken:
            self._places.pop(tenant, None)
