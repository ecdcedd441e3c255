"""Whom a call is served for: the tenant, with all that it may, as one value.

It comes from the credential of the call alone, is set once where the call begins, and reaches
whatever works for that call, tasks and threads included. Without a file of tenants every call is
served for `EVERYBODY`. The same holds for the sender, for what callers take turns at.
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
    """One of those who share a server.

    `domain_key` is a secret of the tenant, or of those who share its cache: keys of what is kept
    are made with it, so that nobody else finds it. Empty where everybody shares one cache.
    `per_day` and `per_month` are what its calls may cost, in the server's currency. `weight` is its
    share beside others, in (0, 1]: one of 1 gets twice the work done that one of .5 does, while
    both have some waiting.
    `tokens_per_second` is the work it may send; None for no limit.
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
        """What shows that two tenants, or one on two servers, find each other's replies."""
        return hashlib.sha256(self.domain_key).hexdigest()[:8]

    def own_key(self, key: bytes) -> bytes:
        """Return the key of something kept or under way, as it is in the tenant's domain."""
        return hmac.digest(self.domain_key, key, "sha256") if self.domain_key else key

    def own_keys(self, keys: list[bytes]) -> list[bytes]:
        """Return the same for many keys; a microsecond for each."""
        return [self.own_key(key) for key in keys]


EVERYBODY = Tenant("")

TENANT: ContextVar[Tenant] = ContextVar("tenant", default=EVERYBODY)
"""Whom the call in work is served for: this task, and all that it starts."""


@dataclass(frozen=True, slots=True)
class Sender:
    """One of those who take turns: a tenant, or a connection where there are no tenants.

    Calls of one `name` share a turn. One of weight 2 gets twice what one of weight 1 gets, while
    both have work waiting. With `is_batch` the call may wait behind interactive ones.
    """

    name: str = ""
    weight: float = 1.0
    is_batch: bool = False


ANYBODY = Sender()

SENDER: ContextVar[Sender] = ContextVar("sender", default=ANYBODY)
"""Who has sent the call in work."""
