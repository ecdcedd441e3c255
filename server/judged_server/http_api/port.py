"""Serves calls over HTTP: reads each from JSON, passes it to gRPC's handler, writes JSON.

Field names may be in camelCase too, as protobuf's JSON mapping requires. Protobuf's own parser
silently converts values that do not fit; here they are errors that name the field. No error quotes
a value, which may be a judged text.

The handlers are gRPC's own, called with a stand-in for gRPC's context. So calls are authenticated,
limited, counted, logged and ended in the same way over HTTP and gRPC.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import ssl
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn

import grpc
import orjson
from aiohttp import web
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from judged.internal.v1 import status_pb2

from judged_server import errors
from judged_server.api.listeners import CONTRACT, Listener
from judged_server.api.requests import REQUEST_ID, Reader, callers_id
from judged_server.api.status import PUSHBACK_TRAILER, STATUS_TRAILER, to_wire
from judged_server.domain import check_limit, need
from judged_server.http_server import Port, is_this_machine, wrong_host
from judged_server.scheduling.concurrency import run_by_size
from judged_server.settings import Settings

MOST_VALUES = 1_000_000
"""JSON values in one message. Python's parser blocks all threads: at this limit for 0.3 s at worst,
without it for 1.4 s (16 MiB of empty lists)."""
_TAKES = {
    FieldDescriptor.CPPTYPE_STRING: "a string",
    FieldDescriptor.CPPTYPE_BOOL: "true or false",
    FieldDescriptor.CPPTYPE_DOUBLE: "a number of 64 bits",
    FieldDescriptor.CPPTYPE_MESSAGE: 'seconds, as "1.5s"',
}
"""What fields accept, by type, for error messages; other types accept whole numbers."""
_WHOLE: dict[int, range] = {
    FieldDescriptor.CPPTYPE_ENUM: range(-(1 << 31), 1 << 31),
    FieldDescriptor.CPPTYPE_INT32: range(-(1 << 31), 1 << 31),
    FieldDescriptor.CPPTYPE_INT64: range(-(1 << 63), 1 << 63),
    FieldDescriptor.CPPTYPE_UINT32: range(1 << 32),
    FieldDescriptor.CPPTYPE_UINT64: range(1 << 64),
}
_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}", re.ASCII)
_ANY = "type.googleapis.com/google.rpc."


def read_message(raw: bytes, kind: Descriptor, max_bytes: int) -> Message:
    """Return the message of a JSON object; an empty body is an empty message.

    Raises MalformedMessage for anything else, InvalidField for an unknown field or a wrong type,
    and LimitExceeded for a message above `max_bytes`.
    """
    try:
        message = GetMessageClass(kind)(**_fields(kind, _parse(raw), ""))
    except RecursionError:
        raise errors.MalformedMessage("the body is nested too deeply") from None
    # A number may take more bytes in protobuf than its digits do in JSON.
    size = message.ByteSize()
    check_limit(size, max_bytes, "bytes as protobuf", "message")
    return message


def count_values(raw: bytes) -> int:
    """Return the number of protobuf fields whose memory bounds that of the JSON and its message.

    Raises LimitExceeded above MOST_VALUES.
    """
    values = raw.count(b",") + raw.count(b"[") + raw.count(b"{")
    check_limit(values, MOST_VALUES, "JSON values, by its commas and brackets", "message")
    return 2 * values


def to_json(message: Message) -> bytes:
    """Return a message as JSON, including fields that have their default but not unset ones."""
    return orjson.dumps(
        MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
    )


def status_json(status: status_pb2.Status) -> bytes:
    """Return a google.rpc.Status as JSON, with details under their names in google.rpc."""
    details = []
    for detail in status.details:
        name = detail.type_url.removeprefix(_ANY)
        kind = status_pb2.DESCRIPTOR.message_types_by_name[name]
        fields = MessageToDict(
            GetMessageClass(kind).FromString(detail.value), preserving_proto_field_name=True
        )
        details.append({"@type": detail.type_url, **fields})
    return orjson.dumps({"code": status.code, "message": status.message, "details": details})


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        found = json.loads(raw or b"{}", object_pairs_hook=_without_duplicates)
    except UnicodeDecodeError:
        raise errors.MalformedMessage("the body is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise errors.MalformedMessage(
            f"the body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError:
        raise errors.MalformedMessage("the body has a number of too many digits") from None
    if not isinstance(found, dict):
        raise errors.MalformedMessage("the body is JSON, but not an object: {...}")
    return found


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise errors.InvalidField(name[:80], "stands twice in one object; say it once")
    return found


@cache
def _by_name(kind: Descriptor) -> dict[str, FieldDescriptor]:
    # A copy, since protobuf's own mappings raise for names with lone surrogates.
    return {**kind.fields_by_camelcase_name, **kind.fields_by_name}


def _fields(kind: Descriptor, given: Any, place: str) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return a JSON object as arguments of the message's class. Raises InvalidField."""
    if not isinstance(given, dict):
        known = ", ".join(kind.fields_by_name)
        raise errors.InvalidField(place, f"must be a JSON object; its fields are {known}")
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for name, value in given.items():
        at = f"{place}.{name[:80]}".removeprefix(".")
        field = _by_name(kind).get(name)
        if field is None:
            fields = list(kind.fields_by_name)
            hint = errors.did_you_mean(name, fields, f"it has {', '.join(fields) or 'none'}")
            raise errors.InvalidField(at, f"is no field of {kind.full_name}; {hint}")
        if value is None:
            continue
        once = (field.containing_oneof or field).name
        if once in seen:
            raise errors.InvalidField(at, f"stands beside another {once}; say one of them")
        seen.add(once)
        of = field.message_type
        if not field.is_repeated:
            found[field.name] = _value(field, value, at)
            continue
        pair = of.fields if of is not None and of.GetOptions().map_entry else ()
        fits = isinstance(value, dict if pair else list)
        need(fits, at, f"must be a JSON {'object' if pair else 'array'}")
        if pair:
            keys, values = pair
            places = {key: f'{at}["{key[:80]}"]' for key in value}
            found[field.name] = {
                _value(keys, key, places[key]): _value(values, item, places[key])
                for key, item in value.items()
            }
        else:
            found[field.name] = [
                _value(field, item, f"{at}[{index}]") for index, item in enumerate(value)
            ]
    return found


def _value(field: FieldDescriptor, value: Any, place: str) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value converted for its field. Raises InvalidField for a wrong type."""
    of = field.message_type
    if of is not None and of.full_name != Duration.DESCRIPTOR.full_name:
        return _fields(of, value, place)
    try:
        return _scalar(field, value)
    except (ValueError, OverflowError, KeyError):
        raise errors.InvalidField(place, _rule(field)) from None


def _rule(field: FieldDescriptor) -> str:
    takes = _TAKES.get(field.cpp_type, "a whole number in the range that /openapi.json has")
    if field.type == FieldDescriptor.TYPE_BYTES:
        takes = "base64, without spaces and line ends"
    elif field.enum_type is not None:
        takes = "one of " + ", ".join(each.name for each in field.enum_type.values if each.number)
    return f"must be {takes}"


def _scalar(field: FieldDescriptor, value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value as a scalar. Raises ValueError, OverflowError, KeyError if it can't."""
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    if (numbers := _WHOLE.get(field.cpp_type)) is not None:
        number = _number(value)
        if int(number) != number or int(number) not in numbers:
            raise ValueError
        return int(number)
    if field.cpp_type == FieldDescriptor.CPPTYPE_DOUBLE:
        return float(_number(value))
    wanted: Any = bool if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL else str
    if type(value) is not wanted:
        raise ValueError
    if field.type == FieldDescriptor.TYPE_STRING:
        value.encode()
    elif field.type == FieldDescriptor.TYPE_BYTES:
        if not _BASE64.fullmatch(value):
            raise ValueError
        return urlsafe_b64decode(value.rstrip("=") + "==")
    elif field.message_type is not None:
        duration = Duration()
        duration.FromJsonString(value)
        return duration
    return value


def _number(value: Any) -> float:  # noqa: ANN401 - JSON
    """Return a number; protobuf's JSON mapping allows a string, too. Raises ValueError."""
    number, written = value, isinstance(value, str)
    if written:
        number = json.loads(value)
    if type(number) not in {int, float} or (written and value != value.strip()):
        raise ValueError
    if not math.isfinite(number) and value not in _NOT_FINITE:
        raise ValueError
    return number  # type: ignore[no-any-return]


JSON = "application/json"
SIGN_OF_LIFE_S = 15.0
"""How often a stream without events sends a comment, since proxies close silent connections."""
_PIECE_BYTES = 1 << 16
_TIMEOUT = "grpc-timeout"
_UNITS = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_HTTP_STATUS = {
    3: 400,  # INVALID_ARGUMENT
    4: 504,  # DEADLINE_EXCEEDED
    5: 404,  # NOT_FOUND
    8: 429,  # RESOURCE_EXHAUSTED
    9: 400,  # FAILED_PRECONDITION
    14: 503,  # UNAVAILABLE
    16: 401,  # UNAUTHENTICATED
}
"""HTTP statuses by gRPC code, as in google/rpc/code.proto; all others are 500."""

Trailers = tuple[tuple[str, str | bytes], ...]


class HttpCall:
    """A call in an aiohttp request; implements the part of gRPC's context that handlers use."""

    def __init__(self, request: web.Request, method: MethodDescriptor, settings: Settings) -> None:
        self._request = request
        self._method = method
        self._settings = settings
        most = settings.max_message_bytes
        parse = partial(read_message, kind=method.input_type, max_bytes=most)
        self.reader = Reader(parse, count_values)
        self._trailers: dict[str, str | bytes] = {}
        self._ends: float | None = None
        self._events: web.StreamResponse | None = None
        self._alive: asyncio.Task[None] | None = None

    async def answer(self, handler: Any) -> web.StreamResponse:  # noqa: ANN401 - gRPC's
        """Run gRPC's handler, and write its reply or its error."""
        body, handle = b"", handler.stream_stream or handler.stream_unary
        try:
            if (asked := _seconds(self._request.headers.get(_TIMEOUT))) is not None:
                self._ends = asyncio.get_running_loop().time() + asked
            async with asyncio.timeout(self.time_remaining()):
                reply = await handle(None, self)
                if not (self._method.server_streaming or STATUS_TRAILER in self._trailers):
                    reply = GetMessageClass(self._method.output_type).FromString(reply)
                    body = await run_by_size(reply.ByteSize(), to_json, reply)
        except (TimeoutError, errors.JudgedError) as error:
            late = errors.DeadlineExceeded(
                "the time of grpc-timeout is over; allow more, or send less"
            )
            failure = error if isinstance(error, errors.JudgedError) else late
            self.set_trailing_metadata(to_wire(failure).trailers)
            if (request_id := callers_id(self.invocation_metadata())) is not None:
                self._trailers[REQUEST_ID] = request_id
        finally:
            if self._alive is not None:
                self._alive.cancel()
        return await self._end(body)

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return the headers as metadata. Bytes that are not UTF-8 are read as Latin-1."""
        return tuple(
            (name.lower(), value.encode("utf-8", "surrogateescape").decode("latin-1"))
            for name, value in self._request.headers.items()
        )

    def time_remaining(self) -> float | None:
        """Return the seconds until the caller's deadline; None if it set none."""
        if self._ends is None:
            return None
        return max(0.0, self._ends - asyncio.get_running_loop().time())

    def peer(self) -> str:
        """Return the connection's peer in gRPC's format."""
        transport = self._request.transport
        name = None if transport is None else transport.get_extra_info("peername")
        if transport is None or not isinstance(name, tuple):
            return f"unix:{id(transport)}"
        host, port = name[:2]
        return f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"

    def auth_context(self) -> Mapping[str, list[bytes]]:
        """Return the client's certificate; TLS has verified its signature."""
        tls = self._request.get_extra_info("ssl_object")
        shown = None if tls is None else tls.getpeercert(binary_form=True)
        return {"x509_pem_cert": [ssl.DER_cert_to_PEM_cert(shown).encode()]} if shown else {}

    def set_trailing_metadata(self, trailers: Trailers) -> None:
        """Set the trailers, which go into the reply's status and headers."""
        self._trailers.update(trailers)

    async def abort(self, _: grpc.StatusCode, __: str, trailers: Trailers) -> NoReturn:
        """End the call with the status of the trailers. Raises AbortError."""
        self.set_trailing_metadata(trailers)
        raise grpc.aio.AbortError("Locally aborted.")

    async def read(self) -> bytes:
        """Receive and return the JSON body, at most `max_message_bytes` of it.

        Raises LimitExceeded, InvalidField for another content type, and MalformedMessage.
        """
        request, most = self._request, self._settings.max_message_bytes
        if request.query_string:
            raise errors.InvalidField("url", "must have no ?; say what is after it in the body")
        if not request.body_exists:
            return b""
        charset = (request.charset or "utf-8").lower()
        if request.content_type != JSON or charset not in {"utf-8", "utf8"}:
            rule = f"must be {JSON}, in UTF-8; with curl, say --json"
            raise errors.InvalidField("content-type", rule)
        coding = request.headers.get("content-encoding", "identity").lower()
        if coding not in {"identity", "gzip"}:
            raise errors.InvalidField("content-encoding", "must be gzip, or left out")
        size, found = request.content_length or 0, bytearray()
        try:
            while size <= most and (part := await request.content.readany()):
                found += part
                size = max(size, len(found))
        except web.RequestPayloadError:
            raise errors.MalformedMessage("the body ended before its end") from None
        check_limit(size, most, "bytes", "message")
        return bytes(found)

    async def write(self, message: Message) -> None:
        """Write a reply of a stream as an event, named after the field set in its oneof."""
        name = message.WhichOneof(message.DESCRIPTOR.oneofs[0].name)
        try:
            await self._write_event(str(name), to_json(message))
        except ConnectionError:  # the caller disconnected; cancel this task, as gRPC does
            if (task := asyncio.current_task()) is not None:
                task.cancel()
            raise asyncio.CancelledError from None

    async def _write_event(self, name: str, body: bytes) -> None:
        if self._events is None:
            headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
            self._events = web.StreamResponse(headers=headers)
            await self._events.prepare(self._request)
            self._alive = asyncio.create_task(_send_comments(self._events))
        await self._events.write(b"event: %b\ndata: %b\n\n" % (name.encode(), body))

    async def _end(self, body: bytes) -> web.StreamResponse:
        """Write the reply or error; for a stream, end it, with any error as its last event."""
        raw, status = self._trailers.get(STATUS_TRAILER), int(HTTPStatus.OK)
        if isinstance(raw, bytes):
            ended = status_pb2.Status.FromString(raw)
            body = status_json(ended)
            status = _HTTP_STATUS.get(ended.code, HTTPStatus.INTERNAL_SERVER_ERROR)
        if self._events is not None:
            if body:
                await self._drained(self._write_event("error", body))
            await self._drained(self._events.write_eof())
            return self._events
        response = web.StreamResponse(status=status, headers=_headers(status, self._trailers))
        response.content_length = len(body)
        await response.prepare(self._request)
        for start in range(0, len(body), _PIECE_BYTES):
            await self._drained(response.write(body[start : start + _PIECE_BYTES]))
        await self._drained(response.write_eof())
        return response

    async def _drained(self, writing: Awaitable[None]) -> None:
        """Await a write; abort the connection if the caller does not read for `max_unread_s`."""
        try:
            async with asyncio.timeout(self._settings.max_unread_s):
                await writing
        except TimeoutError:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise asyncio.CancelledError from None


async def _send_comments(events: web.StreamResponse) -> None:
    """Write a comment, which event readers ignore, every SIGN_OF_LIFE_S."""
    with suppress(ConnectionError):  # the call's own task detects that the caller disconnected
        while True:
            await asyncio.sleep(SIGN_OF_LIFE_S)
            await events.write(b": working\n\n")


def _seconds(asked: str | None) -> float | None:
    """Return the seconds of a grpc-timeout header. Raises InvalidField."""
    if asked is None:
        return None
    found = re.fullmatch(r"([0-9]{1,8})([HMSmun])", asked)
    if found is None:
        raise errors.InvalidField(
            _TIMEOUT, "must be up to 8 digits and a unit: H, M or S, or m for thousandths: 30S"
        )
    return int(found[1]) * _UNITS[found[2]]


def _headers(status: int, trailers: Mapping[str, str | bytes]) -> dict[str, str]:
    found = {"Content-Type": JSON}
    request_id, pushback = trailers.get(REQUEST_ID), trailers.get(PUSHBACK_TRAILER)
    if isinstance(request_id, str):
        found[REQUEST_ID] = request_id
    if isinstance(pushback, str):
        found["Retry-After"] = str(math.ceil(int(pushback) / 1000))
    if status == HTTPStatus.UNAUTHORIZED:
        found["WWW-Authenticate"] = "Bearer"
    return found


_OPENAPI = Path(__file__).with_name("openapi.json")
"""Generated from the contract by proto/generate.py."""
_KEEPALIVE_S = 75.0
_LINGERING_S = 2.0
"""How long a rejected body is still read, so that its sender receives the error."""

METHODS = {f"/v1/{method.name}": method for service in CONTRACT for method in service.methods}
"""The calls of the contract, by path."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class HttpPort(Port):
    """Serves calls, health and readiness over HTTP. Used on one event loop."""

    def __init__(
        self,
        listener: Listener,
        handlers: Mapping[str, Mapping[str, grpc.RpcMethodHandler[Any, Any]]],
        settings: Settings,
        is_ready: Callable[[], bool],
    ) -> None:
        """Take gRPC's handlers, by service and method."""
        application = web.Application(middlewares=[self._guarded])
        application.router.add_get("/openapi.json", self._get_openapi, allow_head=False)
        for path, method in METHODS.items():
            if not method.client_streaming:  # which HTTP can't carry
                application.router.add_post(path, partial(self._answer, method))
        super().__init__(
            "http_listen",
            listener.address,
            application,
            is_ready,
            listener.certificates,
            settings.client_ca,
            settings.socket_mode,
            handler_cancellation=True,
            keepalive_timeout=_KEEPALIVE_S,
            lingering_time=_LINGERING_S,
            # aiohttp would inflate messages on the event loop, to any size.
            auto_decompress=False,
        )
        self._listener = listener
        self._handlers = handlers
        self._settings = settings

    async def _answer(self, method: MethodDescriptor, request: web.Request) -> web.StreamResponse:
        handlers = self._handlers[method.containing_service.full_name]
        return await HttpCall(request, method, self._settings).answer(handlers[method.name])

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Reject web pages if callers are not authenticated; add hints to 404 and 405."""
        if self._listener.callers is None and (refused := self._refused(request)):
            raise web.HTTPForbidden(text=refused)
        path = request.path[:200]
        try:
            return await handler(request)
        except web.HTTPNotFound as error:
            error.text = f"{path}: no such call by HTTP; /openapi.json has them"
            raise
        except web.HTTPMethodNotAllowed as error:
            error.text = f"{path} wants {error.headers['Allow']}"
            raise

    def _refused(self, request: web.Request) -> str:
        """Return why a request looks like that of a web page, "" if it does not."""
        origin = request.headers.get("origin")
        if origin is not None and not is_this_machine(origin):
            return (
                "origin: this server asks nobody who calls, so web pages can't call it; "
                "give it --tenants"
            )
        # On other addresses a proxy may call under any host name; web pages can't use sockets.
        is_port_of_this_machine = self.address.path is None and self.address.is_local
        return wrong_host(request) if is_port_of_this_machine else ""

    async def _get_openapi(self, _: web.Request) -> web.Response:
        """Answer with the OpenAPI description of all calls."""
        return web.Response(body=_OPENAPI.read_bytes(), content_type=JSON)
