"""How many calls an address has made lately that the server could not tell who calls by.

At 256 bits guessing tokens does not help; this bounds what those cost who try, or who go on calling
with a token that has ended: after so many in a minute they are told when to come again, and leave
no more lines in the logs. Good credentials are never asked about here, so that nobody is locked out
who shares an address with one of those, behind a proxy, say.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_address
from urllib.parse import unquote

from judged_server import errors
from judged_server.telemetry import logger

WINDOW_S = 60.0
MOST_ADDRESSES = 4096
"""Addresses that are remembered; those that began to fail longest ago are forgotten first."""
_NETWORK_BITS = 64
"""What one caller has of IPv6 addresses."""

_log = logger("tenants")


@dataclass(slots=True)
class _Window:
    """A minute of an address, from its first failed call on."""

    ends: float
    failed: int = 0


class FailedCalls:
    """Counts failed calls by address; `per_minute` may change. Used on one event loop."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Let an address make `per_minute` of them; 0 lets it make any number."""
        self.per_minute = per_minute
        self._clock = clock
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def __len__(self) -> int:
        """Return how many addresses are remembered."""
        return len(self._windows)

    def note(self, peer: str) -> None:
        """Count a failed call of a peer, by gRPC's name of it.

        Raises AuthenticationLimit, which says when to come again, once there were too many.
        """
        address = address_of(peer)
        if not self.per_minute or not address:
            return
        now = self._clock()
        window = self._windows.get(address)
        if window is None or window.ends <= now:
            window = self._windows[address] = _Window(now + WINDOW_S)
            self._windows.move_to_end(address)
            if len(self._windows) > MOST_ADDRESSES:
                self._windows.popitem(last=False)
        window.failed += 1
        if window.failed <= self.per_minute:
            return
        if window.failed == self.per_minute + 1:
            _log.warning("failed calls limited", address=address, failed=self.per_minute)
        raise errors.AuthenticationLimit(self.per_minute, window.ends - now)


def address_of(peer: str) -> str:
    """Return the address in gRPC's name of a peer, "" for a Unix socket.

    Of IPv6 it is the network of 64 bits, all of which one caller may have.
    """
    family, _, rest = peer.partition(":")
    if family not in {"ipv4", "ipv6"}:
        return ""
    host = unquote(rest).rpartition(":")[0].strip("[]").partition("%")[0]
    address = ip_address(host)
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Network((int(address), _NETWORK_BITS), strict=False))
