"""Limits the tokens per second that a tenant may send.

Work is counted before it is parsed, in tokens estimated from the size of its message. A token
bucket holds what a tenant may send in BURST_S. A message of any size is admitted while the bucket
is not empty, and may leave it in debt, which must refill before the next one. So any message gets
through eventually, and the average rate keeps the limit.
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
    """A token bucket: the tokens `left` at time `at`; negative for a debt."""

    left: float
    at: float


@dataclass
class TenantRates:
    """The buckets of the tenants of a server. Used on one event loop."""

    clock: Clock = field(default_factory=Clock)
    _buckets: dict[str, _Bucket] = field(default_factory=dict)

    def charge(self, tenant: Tenant, size: int) -> None:
        """Charge a tenant for a message of `size` bytes.

        Raises TenantLimit, with a retry delay, if the tenant's bucket is empty.
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
        """Charge a tenant for a stream's message, after waiting until its bucket is not empty."""
        while (wait_s := self._take(tenant, size)) > 0:
            await self.clock.sleep(wait_s)

    def _take(self, tenant: Tenant, size: int) -> float:
        """Charge a message and return 0, or return the seconds until the bucket is not empty."""
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
