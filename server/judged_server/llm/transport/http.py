"""Sends JSON over HTTP to one provider; returns a status and bytes, or raises a fault.

One connection pool per provider. Only the given URL is requested: no redirects, no proxies from the
environment, no cookies. TLS is always verified. A reply is read up to MAX_BODY_BYTES, and must say
how long it is. Knows nothing of language models; dialects interpret the status.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from judged_server.llm.chat import ProviderFault, Reason
from judged_server.llm.config import ProviderConfiguration
from judged_server.settings import SettingsError


class PrivateAddress(OSError):
    """A host name has an address that is not public."""


def public_socket(info: aiohttp.AddrInfoType) -> socket.socket:
    """Return a socket for an address that is about to be connected to.

    Raises PrivateAddress if it is not public; then the next address of the name is tried.
    """
    family, kind, protocol, _, address = info
    if not is_public(str(address[0])):
        raise PrivateAddress("no public address")
    return socket.socket(family, kind, protocol)


def is_checked(provider: ProviderConfiguration) -> bool:
    """Return whether the host name in a provider's URL must have public addresses.

    Not for plain HTTP, which is for this machine or a network that the operator trusts, nor for an
    IP address in place of a name, which the operator chose.
    """
    parts = urlsplit(provider.base_url)
    with suppress(ValueError):
        ipaddress.ip_address(parts.hostname or "")
        return False
    return parts.scheme == "https" and parts.hostname != "localhost" and not provider.allow_private


def is_public(address: str) -> bool:
    """Return whether an address is public; of IPv4 within IPv6 the IPv4 address is checked."""
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


MAX_BODY_BYTES = 1 << 20
_NO_TIMERS = aiohttp.ClientTimeout(total=None, connect=None, sock_read=None, sock_connect=None)

_UNREACHABLE: dict[type[Exception], str] = {
    aiohttp.ClientConnectorCertificateError: "its TLS certificate is not trusted; check base_url, "
    "or set ca_file",
    aiohttp.ClientSSLError: "TLS could not be agreed on with it; check base_url",
    aiohttp.ClientConnectorDNSError: "its host name has no address; check base_url",
    aiohttp.ClientConnectorError: "no connection to it could be made; is it running?",
}
"""Messages for failures to connect; the first class that matches applies."""


class HttpReply(NamedTuple):
    """An HTTP response. `retry_after` is the header Retry-After, unparsed."""

    status: int
    body: bytes
    retry_after: str | None


class HttpTransport:
    """The connections to one provider; used on one event loop."""

    def __init__(self, provider: ProviderConfiguration) -> None:
        """Open no connection yet. Raises SettingsError if `ca_file` has no certificates."""
        self._base = provider.base_url
        self._tls = _tls(provider)
        self._socket_factory = public_socket if is_checked(provider) else None
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, path: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> HttpReply:
        """Return the reply to a POST within `timeout_s` seconds.

        Raises ProviderFault with the reason TIMEOUT, PROVIDER_UNREACHABLE or PROVIDER_ERROR. When
        it is cancelled or fails, the connection is closed.
        """
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._open().post(
                    URL(self._base + path, encoded=True),
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                )
                try:
                    body = await _read(response)
                except BaseException:
                    response.close()
                    raise
                return HttpReply(response.status, body, response.headers.get("Retry-After"))
        except TimeoutError:
            what = f"it has not answered within {timeout_s:.3g} s"
            fault = ProviderFault(Reason.TIMEOUT, what, retryable=True)
        except (aiohttp.ClientError, OSError) as error:
            fault = _classify(error)
        # Outside the handlers: aiohttp's exceptions hold the request's headers, with the key.
        raise fault

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # The number of connections is limited by `endpoint.Window`.
                connector=aiohttp.TCPConnector(
                    limit=0, ssl=self._tls, socket_factory=self._socket_factory
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=_NO_TIMERS,
                # aiohttp reports undecodable bodies as broken connections, and accepts cut gzip.
                auto_decompress=False,
                headers={"Accept-Encoding": "identity", "User-Agent": "judged"},
                trust_env=False,
            )
        return self._session


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return the body. Raises ProviderFault if it is compressed, too long, or has no length.

    A whole reply that can't be used was paid for, so it is not retried.
    """
    fields = response.headers
    encoding = fields.get("Content-Encoding", "").strip().lower()
    if response.status == 200 and encoding not in {"", "identity"}:
        what = "its reply is compressed, which it was not asked for"
        raise ProviderFault(Reason.PROVIDER_ERROR, what, retryable=False)
    chunked = "chunked" in fields.get("Transfer-Encoding", "").lower()
    if response.status == 200 and not chunked and "Content-Length" not in fields:
        # Without either, a body that was cut looks complete.
        what = "its reply doesn't say how long it is"
        raise ProviderFault(Reason.PROVIDER_ERROR, what, retryable=True)
    content = response.content
    parts: list[bytes] = []
    size = 0
    while part := await content.readany():
        parts.append(part)
        size += len(part)
        if size > MAX_BODY_BYTES:
            what = f"its reply is larger than {MAX_BODY_BYTES} bytes"
            raise ProviderFault(Reason.PROVIDER_ERROR, what, retryable=False)
    return b"".join(parts)


def _classify(error: Exception) -> ProviderFault:
    """Return the fault of an error of aiohttp, without its text, which may quote the peer."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, PrivateAddress
    ):
        what = "its host name leads into a private network; allow_private = true permits that"
        return ProviderFault(Reason.PROVIDER_UNREACHABLE, what, retryable=False)
    if isinstance(error, aiohttp.ClientResponseError):
        what = "it answered with something that isn't HTTP"
        return ProviderFault(Reason.PROVIDER_ERROR, what, retryable=True)
    what = next(
        (words for kind, words in _UNREACHABLE.items() if isinstance(error, kind)),
        "it closed the connection before its reply was complete",
    )
    distrusted = isinstance(error, aiohttp.ClientConnectorCertificateError)
    fault = ProviderFault(Reason.PROVIDER_UNREACHABLE, what, retryable=not distrusted)
    fault.unsent = isinstance(error, tuple(_UNREACHABLE))
    return fault


def _tls(provider: ProviderConfiguration) -> ssl.SSLContext | bool:
    """Return how certificates are checked: against the system's authorities, or `ca_file`'s."""
    if provider.ca_file is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(provider.ca_file))
    except (OSError, ssl.SSLError):
        raise SettingsError(
            f"provider {provider.name}: ca_file {provider.ca_file} holds no certificates in PEM"
        ) from None
