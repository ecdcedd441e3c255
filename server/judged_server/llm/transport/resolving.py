"""Where a provider's name may lead: to public addresses only, unless the operator says otherwise.

A name that someone else can point elsewhere, at the machine's metadata say, then leads nowhere.
Addresses that the operator wrote down as such are his to choose, and so are localhost and plain
HTTP: see `is_checked`.
"""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult

from judged_server.llm.config.configured import ProviderConfiguration


class PrivateAddress(OSError):
    """A name leads to no public address."""


class PublicResolver(AbstractResolver):
    """Resolves by another resolver, and keeps what is public."""

    def __init__(self, resolver: AbstractResolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the public addresses of a name. Raises PrivateAddress when it has none."""
        found = await self._resolver.resolve(host, port, family)
        public = [result for result in found if is_public(result["host"])]
        if found and not public:
            raise PrivateAddress("no public address")
        return public

    async def close(self) -> None:
        """Close the resolver behind."""
        await self._resolver.close()


def is_checked(provider: ProviderConfiguration) -> bool:
    """Return whether the name in a provider's URL must lead to public addresses.

    Plain HTTP only goes to this machine, or into a network that the operator trusts.
    """
    parts = urlsplit(provider.base_url)
    return parts.scheme == "https" and parts.hostname != "localhost" and not provider.allow_private


def is_public(address: str) -> bool:
    """Return whether an address is one of the internet; those within IPv6 count as themselves."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        within = found.ipv4_mapped or found.sixtofour
        if int(found) >> 32 == _NAT64 >> 32:
            within = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if within is not None:
            found = within
    return found.is_global and not found.is_multicast


_NAT64 = int(ipaddress.IPv6Address("64:ff9b::"))
"""The prefix whose last four bytes are an IPv4 address (RFC 6052)."""
