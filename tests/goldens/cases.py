"""What is asked of the product: calls, requests by HTTP, and commands in folders."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from google.protobuf import descriptor, descriptor_pool, message, message_factory
from judged.v1 import judge_service_pb2, statistics_service_pb2

SERVICES = [
    service
    for file in (judge_service_pb2.DESCRIPTOR, statistics_service_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
]
METHODS: dict[str, descriptor.MethodDescriptor] = {
    method.name: method for service in SERVICES for method in service.methods
}


@dataclass(frozen=True)
class Call:
    """One call by gRPC; a stream of the caller has several messages."""

    name: str
    server: str
    method: str
    messages: list[str]  # packed, since the descriptors may be others when they are sent again

    def requests(self) -> list[bytes]:
        return [unpack(each) for each in self.messages]


@dataclass(frozen=True)
class Http:
    """One request by HTTP, byte for byte."""

    name: str
    server: str
    sent: str  # packed


@dataclass(frozen=True)
class Step:
    """A command in a folder, which the steps before it have left as it is.

    `files` are written before it runs. An "@" in an argument or a file stands for the server.
    """

    name: str
    server: str
    folder: str
    program: str
    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


Case = Call | Http | Step
_KINDS: dict[str, type[Case]] = {kind.__name__: kind for kind in (Call, Http, Step)}


def pack(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 9)).decode()


def unpack(packed: str) -> bytes:
    return zlib.decompress(base64.b64decode(packed))


def line_of(case: Case) -> str:
    return json.dumps({"kind": type(case).__name__, **asdict(case)}, ensure_ascii=False)


def case_of(line: str) -> Case:
    fields: dict[str, Any] = json.loads(line)
    return _KINDS[fields.pop("kind")](**fields)


def read_message(kind: descriptor.Descriptor, raw: bytes) -> message.Message:
    found = message_factory.GetMessageClass(kind)()
    found.ParseFromString(raw)
    return found


def message_named(full_name: str, raw: bytes) -> message.Message:
    pool = descriptor_pool.Default()
    return read_message(pool.FindMessageTypeByName(full_name), raw)


class Calls:
    """Makes calls with names of their own."""

    def __init__(self) -> None:
        self._made: dict[str, int] = {}

    def of(self, about: str, server: str, *requests: Any) -> Call:
        """Return the call that takes such requests."""
        method = type(requests[0]).__name__.removesuffix("Request")
        name = self.named(f"{method} {about}")
        return Call(name, server, method, [pack(_bytes(each)) for each in requests])

    def named(self, name: str) -> str:
        """Return the name, with a number where there was one like it."""
        self._made[name] = number = self._made.get(name, 0) + 1
        return name if number == 1 else f"{name} #{number}"


def _bytes(request: Any) -> bytes:
    return bytes(request.SerializeToString(deterministic=True))


def all_requests(call: Call) -> Iterator[message.Message]:
    for raw in call.requests():
        yield read_message(METHODS[call.method].input_type, raw)
