"""Between values and messages: a field of a value is that of the message with the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from judged.errors import WrongType

Value = TypeVar("Value")
Written = TypeVar("Written", bound=Message)
_Get = Callable[[Any], object]
_CONTAINERS: Mapping[Any, _Get] = {Sequence: list, tuple: tuple, Mapping: dict}
_TIMES: Mapping[Descriptor | None, _Get] = {
    Duration.DESCRIPTOR: lambda duration: duration.ToNanoseconds() / 1e9,
    Timestamp.DESCRIPTOR: lambda timestamp: timestamp.ToDatetime(tzinfo=UTC),
}
_UNSET = object()


class UnknownChoice(ValueError):
    """A number that is no choice of its enumeration, at the path `field`."""

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field}: {rule}")
        self.field = field
        self.rule = rule

    def below(self, parent: str) -> UnknownChoice:
        """Return the error with the path of the message that holds the field."""
        return UnknownChoice(f"{parent}.{self.field}" if self.field else parent, self.rule)


def read_fields(kind: type[Value], message: Message, **others: object) -> Value:
    """Return a value of a dataclass, whose types say how each field is read.

    What is optional and unset is None, or what the dataclass has in its place. Inner messages and
    numbers become the dataclasses and enums that the type names, repeated fields lists or tuples of
    these, a duration its seconds, which are named as it with `_s`, a timestamp a datetime in UTC.
    `others` are the fields that the message has under another name or in another form; what it has
    not at all keeps its default. Raises UnknownChoice.
    """
    known = _getters(kind, message.DESCRIPTOR)  # type: ignore[arg-type]  # types are hashable
    found = {name: get(message) for name, get in known.items() if name not in others}
    return kind(**{name: value for name, value in found.items() if value is not _UNSET}, **others)


def write_fields(kind: type[Written], value: Any = None, **others: object) -> Written:  # noqa: ANN401 - a dataclass
    """Return a message with the fields of a value, and `others`; None leaves one unset.

    Inner values become the messages that the fields hold. Raises WrongType for one text where a
    list belongs, and for a text or number where a value does; else what protobuf raises.
    """
    named: Mapping[str, Any] = kind.DESCRIPTOR.fields_by_name
    parts = () if value is None else fields(value)
    own = {part.name: getattr(value, part.name) for part in parts if part.name in named}
    return kind(**{name: _written(named[name], each) for name, each in (own | others).items()})


def _written(field: FieldDescriptor, value: Any) -> object:  # noqa: ANN401 - of any type of field
    """Return what the constructor of a message takes for a field. Raises WrongType."""
    if field.is_repeated and isinstance(value, str):
        raise WrongType.of_field(field.name, "must be a list, not one text")
    if field.message_type is None or value is None:
        return value
    kind = GetMessageClass(field.message_type)
    if is_dataclass(value):
        return write_fields(kind, value)
    if isinstance(value, list | tuple):
        return [write_fields(kind, each) if is_dataclass(each) else each for each in value]
    if isinstance(value, str | int | float):
        named = field.message_type.name
        raise WrongType.of_field(field.name, f"must be {named}, not {type(value).__name__}")
    return value


@cache
def _getters(kind: Any, message: Descriptor) -> Mapping[str, _Get]:  # noqa: ANN401 - a dataclass
    """Return what reads each field of a dataclass from a message that has it."""
    types, named = get_type_hints(kind), dict(message.fields_by_name)
    durations = [each for each in named.values() if each.message_type is Duration.DESCRIPTOR]
    named |= {f"{field.name}_s": field for field in durations}
    return {
        part.name: _getter(named[part.name], types[part.name], part.default is not MISSING)
        for part in fields(kind)
        if part.name in named
    }


def _getter(field: FieldDescriptor, declared: Any, has_default: bool = False) -> _Get:  # noqa: ANN401 - a type or a union
    name, get = field.name, attrgetter(field.name)
    given = [inner for inner in get_args(declared) if inner is not NoneType]
    if NoneType in get_args(declared):
        inner = _getter(field, given[0])
        if not field.has_presence:
            return inner
        return lambda message: inner(message) if message.HasField(name) else None
    container = _CONTAINERS.get(get_origin(declared))
    made = _TIMES.get(field.message_type) or _maker(field, given[0] if container else declared)
    if container is not None and made is _same:
        return lambda message: container(get(message))
    if container is not None:
        return lambda message: container(_each(made, get(message), name))

    def one(message: Any) -> object:  # noqa: ANN401 - a message
        try:
            return made(get(message))
        except UnknownChoice as unknown:
            raise unknown.below(name) from None

    plain = get if made is _same else one
    if field.message_type is None and field.has_presence and has_default:
        return lambda message: plain(message) if message.HasField(name) else _UNSET
    return plain


def _each(made: _Get, items: Any, name: str) -> list[object]:  # noqa: ANN401 - a repeated field
    found: list[object] = []
    for item in items:
        try:
            found.append(made(item))
        except UnknownChoice as unknown:
            raise unknown.below(f"{name}[{len(found)}]") from None
    return found


def _maker(field: FieldDescriptor, kind: Any) -> Callable[[Any], object]:  # noqa: ANN401 - a type
    """Return what makes a value of a type out of a message or a number; others stay as they are."""
    if is_dataclass(kind) and isinstance(kind, type):
        return partial(read_fields, kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return partial(_choice, field, kind)
    return _same


def _choice(field: FieldDescriptor, kind: type[Enum], number: int) -> Enum:
    try:
        return kind(number)
    except ValueError:
        known = field.enum_type.values if field.enum_type is not None else ()
        names = ", ".join(each.name for each in known if each.number)
        raise UnknownChoice("", f"must be unset or one of {names}") from None


def _same(value: object) -> object:
    return value
