"""Between values and messages: a field of a value is that of the message with the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import UTC
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

Value = TypeVar("Value")
Written = TypeVar("Written", bound=Message)
_Get = Callable[[Any], object]
_CONTAINERS: Mapping[Any, _Get] = {Sequence: list, tuple: tuple, Mapping: dict}
_TIMES: Mapping[Descriptor | None, _Get] = {
    Duration.DESCRIPTOR: lambda duration: duration.ToNanoseconds() / 1e9,
    Timestamp.DESCRIPTOR: lambda timestamp: timestamp.ToDatetime(tzinfo=UTC),
}


def read_fields(kind: type[Value], message: Message, **others: object) -> Value:
    """Return a value of a dataclass, whose types say how each field is read.

    What is optional and unset is None. Inner messages and numbers become the dataclasses and enums
    that the type names, repeated fields lists or tuples of these, a duration its seconds, which are
    named as it with `_s`, a timestamp a datetime in UTC. `others` are the fields that the message
    has under another name or in another form; what it has not at all keeps its default.
    """
    known = _getters(kind, message.DESCRIPTOR)  # type: ignore[arg-type]  # types are hashable
    found = {name: get(message) for name, get in known.items() if name not in others}
    return kind(**found, **others)


def write_fields(kind: type[Written], value: Any, **others: object) -> Written:  # noqa: ANN401 - a dataclass
    """Return a message with the fields of a value; None leaves one unset. `others` are as given."""
    named = kind.DESCRIPTOR.fields_by_name
    names = (part.name for part in fields(value) if part.name in named and part.name not in others)
    return kind(**{name: getattr(value, name) for name in names}, **others)


def write_optional(kind: type[Written], value: object | None) -> Written | None:
    """Return a message with the fields of a value, None for None."""
    return None if value is None else write_fields(kind, value)


@cache
def _getters(kind: Any, message: Descriptor) -> Mapping[str, _Get]:  # noqa: ANN401 - a dataclass
    """Return what reads each field of a dataclass from a message that has it."""
    types, named = get_type_hints(kind), dict(message.fields_by_name)
    durations = [each for each in named.values() if each.message_type is Duration.DESCRIPTOR]
    named |= {f"{field.name}_s": field for field in durations}
    names = [part.name for part in fields(kind) if part.name in named]
    return {name: _getter(named[name], types[name]) for name in names}


def _getter(field: FieldDescriptor, declared: Any) -> _Get:  # noqa: ANN401 - a type or a union
    name, get = field.name, attrgetter(field.name)
    given = [inner for inner in get_args(declared) if inner is not NoneType]
    if NoneType in get_args(declared):
        inner = _getter(field, given[0])
        if not field.has_presence:
            return inner
        return lambda message: inner(message) if message.HasField(name) else None
    container = _CONTAINERS.get(get_origin(declared))
    if container is None:
        made = _TIMES.get(field.message_type) or _maker(declared)
        return get if made is _same else lambda message: made(get(message))
    made = _maker(given[0])
    if made is _same:
        return lambda message: container(get(message))
    return lambda message: container([made(each) for each in get(message)])


def _maker(kind: Any) -> Callable[[Any], object]:  # noqa: ANN401 - a type
    """Return what makes a value of a type out of a message or a number; others stay as they are."""
    if is_dataclass(kind) and isinstance(kind, type):
        return partial(read_fields, kind)
    return kind if isinstance(kind, type) and issubclass(kind, Enum) else _same


def _same(value: object) -> object:
    return value
