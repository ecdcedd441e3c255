"""No request has a place for an address, a header or a key: whom to ask is the operator's."""

from __future__ import annotations

import re
from collections.abc import Iterator

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from judged.v1 import judge_service_pb2, statistics_service_pb2

ADDRESS = re.compile(
    r"(^|_)(url|uri|host|hostname|port|endpoint|proxy|headers?|api|secret|password|token|env)($|_)"
)


def fields(message: Descriptor, seen: set[str]) -> Iterator[FieldDescriptor]:
    """Yield every field of a message, and of those within it, once."""
    if message.full_name in seen:
        return
    seen.add(message.full_name)
    for field in message.fields:
        yield field
        if field.message_type is not None:
            yield from fields(field.message_type, seen)


def test_no_field_of_a_request_names_one() -> None:
    seen: set[str] = set()
    names = [
        field.full_name
        for file in (judge_service_pb2, statistics_service_pb2)
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
        for field in fields(method.input_type, seen)
    ]
    assert len(names) > 50
    assert [name for name in names if ADDRESS.search(name.rpartition(".")[2])] == []
