"""The tenant of a call, with its permissions and limits, and the sender for fair scheduling.

The tenant depends only on the call's credential. It is set once, where the call begins, and is
inherited by the call's tasks and threads. Without a tenants file every call has the tenant
`EVERYBODY`. The sender is set and inherited in the same way.
"""

from __future__ import annotations

import hashlib
import hmac
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Allowed:
    """The judges, rubrics and models that a tenant may use, by name; None for all of them."""

    judges: tuple[str, ...] | None = None
    rubrics: tuple[str, ...] | None = None
    models: tuple[str, ...] | None = None


EVERYTHING = Allowed()


@dataclass(frozen=True, slots=True)
class Tenant:
    """One of several tenants that share a server.

    `domain_key` is a secret of the tenant, or of the tenants that share its cache. Cache keys are
    derived from it, so that no other tenant finds the entries. Empty if all share one cache.
    `per_day` and `per_month` limit the cost of its calls, in the server's currency. `weight`, in
    (0, 1], is its share: a tenant of weight 1 gets twice the work done that one of 0.5 does, while
    both have work waiting.
    `tokens_per_second` limits the work it may send; None for no limit.
    """

    name: str
    allowed: Allowed = EVERYTHING
    domain_key: bytes = field(default=b"", repr=False)
    per_day: float | None = None
    per_month: float | None = None
    weight: float = 1.0
    tokens_per_second: float | None = None

    @property
    def cache_id(self) -> str:
        """Id of the cache: equal for tenants, or for servers, that share cached replies."""
        return hashlib.sha256(self.domain_key).hexdigest()[:8]

    def own_key(self, key: bytes) -> bytes:
        """Return the key of a cached or pending reply within the tenant's domain."""
        return hmac.digest(self.domain_key, key, "sha256") if self.domain_key else key

    def own_keys(self, keys: list[bytes]) -> list[bytes]:
        """Return `own_key` of each key; takes a microsecond per key."""
        return [self.own_key(key) for key in keys]


EVERYBODY = Tenant("")

TENANT: ContextVar[Tenant] = ContextVar("tenant", default=EVERYBODY)
"""The tenant of the current call: of this task and all tasks that it starts."""


@dataclass(frozen=True, slots=True)
class Sender:
    """A party in fair scheduling: a tenant, or a connection if there are no tenants.

    Calls with the same `name` share a turn. A sender of weight 2 gets twice what one of weight 1
    gets, while both have work waiting. With `is_batch` the call may wait behind interactive ones.
    """

    name: str = ""
    weight: float = 1.0
    is_batch: bool = False


ANYBODY = Sender()

SENDER: ContextVar[Sender] = ContextVar("sender", default=ANYBODY)
"""The sender of the current call."""
