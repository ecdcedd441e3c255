"""What is asked of the product: calls, requests by HTTP, and commands in folders."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, dataclass
from typing import Any

from google.protobuf import descriptor, message, message_factory
from judged.v1 import judge_service_pb2, statistics_service_pb2

METHODS: dict[str, descriptor.MethodDescriptor] = {
    method.name: method
    for file in (judge_service_pb2.DESCRIPTOR, statistics_service_pb2.DESCRIPTOR)
    for service in file.services_by_name.values()
    for method in service.methods
}


@dataclass(frozen=True)
class Call:
    """One call by gRPC; a stream of the caller has several messages.

    They are kept as bytes, packed, since their fields may have other names when they are sent.
    """

    name: str
    server: str
    method: str
    messages: list[str]

    @classmethod
    def of(cls, about: str, server: str, *requests: Any) -> Call:
        """Return the call that takes such requests."""
        method = type(requests[0]).__name__.removesuffix("Request")
        packed = [pack(each.SerializeToString(deterministic=True)) for each in requests]
        return cls(f"{method} {about}", server, method, packed)

    def requests(self) -> list[bytes]:
        return [unpack(each) for each in self.messages]


@dataclass(frozen=True)
class Http:
    """One request by HTTP, byte for byte, packed."""

    name: str
    server: str
    sent: str


@dataclass(frozen=True)
class Step:
    """A command in a folder, which the steps before it have left as it is.

    `files` are written before it runs.
    """

    name: str
    server: str
    folder: str
    program: str
    arguments: list[str]
    environment: dict[str, str]
    files: dict[str, str]


Case = Call | Http | Step
_KINDS: dict[str, type[Case]] = {kind.__name__: kind for kind in (Call, Http, Step)}


def line_of(case: Case) -> str:
    return json.dumps({"kind": type(case).__name__, **asdict(case)}, ensure_ascii=False)


def case_of(line: bytes) -> Case:
    fields: dict[str, Any] = json.loads(line)
    return _KINDS[fields.pop("kind")](**fields)


def pack(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 9)).decode()


def unpack(packed: str) -> bytes:
    return zlib.decompress(base64.b64decode(packed))


def read_message(kind: descriptor.Descriptor, raw: bytes) -> message.Message:
    found = message_factory.GetMessageClass(kind)()
    found.ParseFromString(raw)
    return found
