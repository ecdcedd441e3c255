"""What a call that came by HTTP shows of itself to the handlers of gRPC."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NoReturn

import grpc
from aiohttp import web
from google.protobuf.message import Message
from judged.internal.v1 import status_pb2

from judged_server import errors
from judged_server.api.listening.receiving import lenient
from judged_server.api.status import STATUS_TRAILER
from judged_server.http_api.json_mapping import count_values

_TIMEOUT = "grpc-timeout"
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


class HttpContext:
    """The part of grpc.aio.ServicerContext that handlers use, over a request of aiohttp.

    So the same handlers serve both, and what holds of a call (who may make it, what it may take,
    how it ends) is written once.
    """

    def __init__(
        self,
        request: web.Request,
        deserialize: Callable[[bytes], Message],
        max_bytes: int,
        write: Callable[[Any], Awaitable[None]],
    ) -> None:
        self._request = request
        self._deserialize = lenient(deserialize, count_values, inline_bytes=0)
        self._max_bytes = max_bytes
        self._is_read = False
        self.write = write
        self.trailers: dict[str, str | bytes] = {}
        self._ends: float | None = None

    def start_clock(self) -> None:
        """Let the call's time begin now. Raises InvalidField for a deadline that is none."""
        if (asked := _seconds(self._request.headers.get(_TIMEOUT))) is not None:
            self._ends = asyncio.get_running_loop().time() + asked

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        """The headers as metadata. Bytes that are no UTF-8 stand as if they were Latin-1."""
        return tuple(
            (name.lower(), value.encode("utf-8", "surrogateescape").decode("latin-1"))
            for name, value in self._request.headers.items()
        )

    @property
    def status(self) -> status_pb2.Status | None:
        """The status that ended the call; None for none."""
        raw = self.trailers.get(STATUS_TRAILER)
        return status_pb2.Status.FromString(raw) if isinstance(raw, bytes) else None

    def time_remaining(self) -> float | None:
        """Return the seconds that the caller still waits; None when it did not say."""
        if self._ends is None:
            return None
        return max(0.0, self._ends - asyncio.get_running_loop().time())

    def peer(self) -> str:
        """Return the connection, as gRPC names those of its own."""
        transport = self._request.transport
        name = None if transport is None else transport.get_extra_info("peername")
        if transport is None or not isinstance(name, tuple):
            return f"unix:{id(transport)}"
        host, port = name[:2]
        return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"

    def auth_context(self) -> Mapping[str, list[bytes]]:
        """Return the client's certificate; TLS has checked who signed it."""
        tls = self._request.get_extra_info("ssl_object")
        shown = None if tls is None else tls.getpeercert(binary_form=True)
        return {"x509_pem_cert": [ssl.DER_cert_to_PEM_cert(shown).encode()]} if shown else {}

    def set_trailing_metadata(self, trailers: tuple[tuple[str, str | bytes], ...]) -> None:
        """Note what is sent with the reply."""
        self.trailers.update(trailers)

    async def abort(
        self, _: grpc.StatusCode, __: str, trailers: tuple[tuple[str, str | bytes], ...]
    ) -> NoReturn:
        """End the call with a status, which `status` then is. Raises AbortError."""
        self.set_trailing_metadata(trailers)
        raise grpc.aio.AbortError("Locally aborted.")

    async def read(self) -> Any:  # noqa: ANN401 - any message, or one that is still to be read
        """Return the message of the call; it is received now, and only up to the limit.

        Raises LimitExceeded, InvalidField for a body of another kind, and MalformedMessage.
        """
        if self._is_read:
            return grpc.aio.EOF
        self._is_read = True
        return self._deserialize(await self._body())

    async def _body(self) -> bytes:
        request, most = self._request, self._max_bytes
        if not request.body_exists:
            return b""
        if request.content_type != "application/json":
            raise errors.InvalidField(
                "content-type", "must be application/json; with curl, say --json"
            )
        coding = request.headers.get("content-encoding", "identity").lower()
        if coding not in {"identity", "gzip"}:
            raise errors.InvalidField("content-encoding", "must be gzip, or left out")
        if (request.content_length or 0) > most:
            raise errors.LimitExceeded("message", "bytes", most, request.content_length or 0)
        found = bytearray()
        try:
            async for part in request.content.iter_any():
                found += part
                if len(found) > most:
                    raise errors.LimitExceeded("message", "bytes", most, len(found))
        except web.RequestPayloadError:
            raise errors.MalformedMessage("the body ended before its end") from None
        return bytes(found)


def _seconds(asked: str | None) -> float | None:
    """Return the seconds that a header of gRPC's form allows. Raises InvalidField."""
    if asked is None:
        return None
    found = re.fullmatch(r"([0-9]{1,8})([HMSmun])", asked)
    if found is None:
        raise errors.InvalidField(
            _TIMEOUT, "must be up to 8 digits and a unit: H, M or S, or m for thousandths: 30S"
        )
    return int(found[1]) * _UNITS[found[2]]
