"""What a tenant may send a second.

Work is counted before it is read, in tokens, by the size of its message. A bucket holds what a
tenant may send in BURST_S. A message is let in as long as anything is left, however large it is,
and what it takes beyond that is made up for before the next one: so any message goes through at
last, and in the long run no more does than the limit says.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from judged_server.errors import TenantLimit
from judged_server.llm.transport.endpoint import Clock
from judged_server.tenant import Tenant

BYTES_A_TOKEN = 3.5
BURST_S = 10.0
_ROUNDING = 1e-6


@dataclass(slots=True)
class _Bucket:
    """What is left of what was there `at` a time; below 0 it is owed."""

    left: float
    at: float


@dataclass
class TenantRates:
    """The buckets of the tenants of a server. Used on one event loop."""

    clock: Clock = field(default_factory=Clock)
    _buckets: dict[str, _Bucket] = field(default_factory=dict)

    def charge(self, tenant: Tenant, size: int) -> None:
        """Take a message of so many bytes from what a tenant may send.

        Raises TenantLimit, which says when it may, where it has nothing left.
        """
        if (wait_s := self._take(tenant, size)) > 0:
            rate = tenant.tokens_per_second or 0
            raise TenantLimit(
                "tokens_per_second",
                f"you may send {rate:g} tokens a second, and have sent more; send the call again "
                f"in {wait_s:.1f} s, or ask the operator for a higher tokens_per_second",
                wait_s,
            )

    async def pace(self, tenant: Tenant, size: int) -> None:
        """Take a message of a stream in the same way; return once the next one may be read."""
        while (wait_s := self._take(tenant, size)) > 0:
            await self.clock.sleep(wait_s)

    def _take(self, tenant: Tenant, size: int) -> float:
        """Take a message, or return in how many seconds the tenant has something left."""
        tokens = int(size / BYTES_A_TOKEN)
        if (rate := tenant.tokens_per_second) is None or not tokens:
            return 0.0
        now, most = self.clock.now(), rate * BURST_S
        bucket = self._buckets.setdefault(tenant.name, _Bucket(most, now))
        bucket.left = min(most, bucket.left + (now - bucket.at) * rate)
        bucket.at = now
        missing = 1 - bucket.left
        if missing > _ROUNDING:
            return missing / rate
        bucket.left -= tokens
        return 0.0
