"""Conversion between dataclasses and protobuf messages whose fields have the same names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import NoneType
from typing import Any, SupportsFloat, TypeVar, get_args, get_origin, get_type_hints

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from judged._inputs import all_texts, as_column, kind_of, need_list, no_utf8
from judged.errors import InvalidArgument, WrongType

Value = TypeVar("Value")
Written = TypeVar("Written", bound=Message)
_Get = Callable[[Any], object]
_CONTAINERS: Mapping[Any, _Get] = {Sequence: list, tuple: tuple, Mapping: dict}
_TIMES: Mapping[Descriptor | None, _Get] = {
    Duration.DESCRIPTOR: lambda duration: duration.ToNanoseconds() / 1e9,
    Timestamp.DESCRIPTOR: lambda timestamp: timestamp.ToDatetime(tzinfo=UTC),
}
_UNSET = object()


def read_fields(kind: type[Value], message: Message, **others: object) -> Value:
    """Return a dataclass read from a message; the types of its fields say how each is read.

    An optional field that is unset is None, or has the default of the dataclass. Inner messages and
    numbers become the dataclasses and enums of the field's type, repeated fields lists or tuples of
    these, a duration its seconds (in a field named with `_s`), a timestamp a datetime in UTC.
    `others` are fields that the message has under another name or in another form; fields that it
    lacks keep their default. Raises InvalidArgument for an unknown enum number.
    """
    known = _getters(kind, message.DESCRIPTOR)  # type: ignore[arg-type]  # types are hashable
    found = {name: get(message) for name, get in known.items() if name not in others}
    return kind(**{name: value for name, value in found.items() if value is not _UNSET}, **others)


def write_fields(kind: type[Written], value: Any = None, **others: object) -> Written:  # noqa: ANN401 - a value
    """Return a message with the fields of a value, and `others`; None leaves a field unset.

    Each field is read from the attribute with its name. Raises InvalidArgument or WrongType, with
    the path, for one text in place of a list, a value of the wrong type, a number out of range, or
    a text that UTF-8 can't encode.
    """
    written: dict[str, object] = {}
    needed = _needed(type(value))  # type: ignore[arg-type]  # types are hashable
    for name, attribute, write in _setters(kind.DESCRIPTOR):
        part = others[name] if name in others else getattr(value, attribute, None)
        if part is not None:
            if (made := part if write is None else write(part)) is not None:
                written[name] = made
        elif attribute in needed and name not in others:
            named: Mapping[str, Any] = kind.DESCRIPTOR.fields_by_name
            raise _refusal(named[name], name, None, TypeError())
    try:
        return kind(**written)
    except (TypeError, ValueError):
        raise _unfit(kind, written) from None


def write_at(path: str, kind: type[Written], value: Any = None, **others: object) -> Written:  # noqa: ANN401 - a value
    """Return a message as `write_fields` does; paths in errors begin with `path`.

    Also raises WrongType for a value of a class that does not match the message.
    """
    try:
        if value is not None:
            _refuse_unlike(kind, value, others)
        return write_fields(kind, value, **others)
    except InvalidArgument as error:
        raise error.below(path) from None


def _unfit(kind: type[Message], written: Mapping[str, Any]) -> InvalidArgument:
    """Return the error for the first field that does not fit, or for its first such item."""
    named: Mapping[str, Any] = kind.DESCRIPTOR.fields_by_name
    for name, whole in written.items():
        if (problem := _problem(kind, name, whole)) is None:
            continue
        field = named[name]
        if (value := _item_of_map(field)) is not None:
            for key, item in whole.items() if all_texts(whole) else ():
                if (of_item := _problem(kind, name, {key: item})) is not None:
                    return _refusal(value, _named(name, key), item, of_item)
        elif field.is_repeated:
            for place, item in enumerate(whole):
                if (of_item := _problem(kind, name, [item])) is not None:
                    return _refusal(field, f"{name}[{place}]", item, of_item)
        return _refusal(field, name, whole, problem)
    return InvalidArgument.of_field("", "holds a value of the wrong type")


def _problem(kind: type[Message], name: str, part: object) -> Exception | None:
    try:
        kind(**{name: part})
    except (TypeError, ValueError) as problem:
        return problem
    return None


def _refusal(
    field: FieldDescriptor, path: str, value: object, problem: Exception
) -> InvalidArgument:
    """Return the error for a value that a field, or an item of it, can't hold."""
    if isinstance(problem, UnicodeEncodeError):
        return InvalidArgument.of_field(path, no_utf8(problem))
    if isinstance(value, SupportsFloat) and not isinstance(problem, TypeError):
        return InvalidArgument.of_field(path, "is out of the range of its field")
    if field.type == FieldDescriptor.TYPE_STRING:
        what = "text or a whole number" if field.name.endswith(("_id", "_ids")) else "text"
    elif field.enum_type is not None:
        what = f"one of {_names(field)}"
    elif field.type == FieldDescriptor.TYPE_BOOL:
        what = "True or False"
    else:
        what = "a number" if _item_of_map(field) is None else "a mapping of texts"
    return WrongType.of_field(path, f"must be {what}, not {type(value).__name__}")


def _names(field: FieldDescriptor) -> str:
    known = () if field.enum_type is None else field.enum_type.values
    return ", ".join(each.name for each in known if each.number)


_CALLED = {"JudgeSpec": "Judge", "AskingOptions": "Asking"}
"""Names of dataclasses that differ from the name of their message."""


def _refuse_unlike(kind: type[Message], value: object, others: Mapping[str, object]) -> None:
    """Raise WrongType if a field of the message is neither in the value nor in `others`."""
    if not _lacking(kind.DESCRIPTOR, type(value)) <= others.keys():  # type: ignore[arg-type]  # types are hashable
        name = kind.DESCRIPTOR.name
        rule = f"must be {_CALLED.get(name, name)}, not {type(value).__name__}"
        raise WrongType.of_field("", rule)


@cache
def _lacking(message: Descriptor, kind: type) -> frozenset[str]:
    """Return the fields of a message that a class does not have."""
    known = {*dir(kind), *(part.name for part in fields(kind))} if is_dataclass(kind) else ()
    return frozenset(name for name, attribute, _ in _setters(message) if attribute not in known)


@cache
def _needed(kind: type) -> frozenset[str]:
    """Return the fields of a dataclass that are never None."""
    parts = fields(kind) if is_dataclass(kind) else ()
    return frozenset(part.name for part in parts if "None" not in str(part.type))


@cache
def _setters(message: Descriptor) -> Sequence[tuple[str, str, _Get | None]]:
    """Return each field of a message as its name, its attribute and the function that writes it."""
    return tuple((each.name, _attribute(each), _setter(each)) for each in message.fields)


def _attribute(field: FieldDescriptor) -> str:
    seconds = field.message_type is Duration.DESCRIPTOR
    return f"{field.name}_s" if seconds else field.name


def _setter(field: FieldDescriptor) -> _Get | None:
    inner = field.message_type
    if (item := _item_of_map(field)) is not None:
        return _map_setter(field.name, _setter(item))
    if inner is None and not field.is_repeated:
        return None
    write = _same if inner is None else partial(_write_message, GetMessageClass(inner))
    if not field.is_repeated:
        return partial(_at, field.name, write)

    def each(values: Any) -> object:  # noqa: ANN401 - what is given for a list
        values = need_list(values, field.name, read=as_column)
        if not len(values):
            return None  # half a microsecond faster than an empty list
        return values if inner is None else _each(field.name, write, values)

    return each


def _map_setter(name: str, one: _Get | None) -> _Get:
    def each(named: Any) -> object:  # noqa: ANN401 - what is given for a mapping
        if named == {}:
            return None
        if not isinstance(named, Mapping):
            rule = f"must be a mapping of names to values, not {kind_of(named)}"
            raise WrongType.of_field(name, rule)
        return named if one is None else _each_named(name, one, named)

    return each


def _at(path: str, make: _Get, value: object) -> object:
    try:
        return make(value)
    except InvalidArgument as error:
        raise error.below(path) from None


def _each(name: str, make: _Get, items: Iterable[Any]) -> list[object]:
    made: list[object] = []
    try:
        for item in items:
            made.append(make(item))  # noqa: PERF401 - the count is the index of the invalid item
    except InvalidArgument as error:
        raise error.below(f"{name}[{len(made)}]") from None
    return made


def _each_named(name: str, make: _Get, items: Mapping[Any, Any]) -> dict[str, object]:
    return {key: _at(_named(name, key), make, item) for key, item in items.items()}


def _named(name: str, key: object) -> str:
    """Return the path of a mapping's item."""
    return f'{name}["{str(key)[:80]}"]'


def _item_of_map(field: FieldDescriptor) -> FieldDescriptor | None:
    entry = field.message_type
    if entry is None or not entry.GetOptions().map_entry:
        return None
    return entry.fields_by_name["value"]


def _write_message(kind: type[Message], value: Any) -> object:  # noqa: ANN401 - of any type
    if isinstance(value, Message):
        return value
    if kind is Duration:
        duration = Duration()
        duration.FromNanoseconds(round(value * 1e9))
        return duration
    if kind is Timestamp:
        timestamp = Timestamp()
        timestamp.FromDatetime(value)
        return timestamp
    choices = _choices(kind.DESCRIPTOR)
    if (chosen := choices.get(type(value))) is not None:
        return write_fields(kind, **{chosen: value})
    if None in choices and is_dataclass(value):
        return write_fields(kind, **{choices[None]: value})
    _refuse_unlike(kind, value, {})
    return write_fields(kind, value)


@cache
def _choices(message: Descriptor) -> Mapping[type | None, str]:
    """Return the fields of a message that consists of one oneof, by the type of the field.

    The key of an inner message is None. Empty if the message has other fields, or two of one type.
    """
    if len(message.oneofs) != 1 or not 1 < len(message.fields) == len(message.oneofs[0].fields):
        return {}
    found: dict[type | None, str] = {}
    for field in message.fields:
        kind = None if field.message_type is not None else type(field.default_value)
        if kind in found:
            return {}
        found[kind] = field.name
    return found


@cache
def _getters(kind: Any, message: Descriptor) -> Mapping[str, _Get]:  # noqa: ANN401 - a dataclass
    """Return the functions that read the fields of a dataclass from a message, by field name."""
    types, named = get_type_hints(kind), dict(message.fields_by_name)
    durations = [each for each in named.values() if each.message_type is Duration.DESCRIPTOR]
    named |= {f"{field.name}_s": field for field in durations}
    return {
        part.name: _getter(
            named[part.name],
            types[part.name],
            has_default=part.default is not MISSING or part.default_factory is not MISSING,
        )
        for part in fields(kind)
        if part.name in named
    }


def _getter(
    field: FieldDescriptor,
    declared: Any,  # noqa: ANN401 - a type or a union
    *,
    has_default: bool = False,
) -> _Get:
    name, get = field.name, attrgetter(field.name)
    given = [inner for inner in get_args(declared) if inner is not NoneType]
    if NoneType in get_args(declared):
        inner = _getter(field, given[0])
        if not field.has_presence:
            return inner
        return lambda message: inner(message) if message.HasField(name) else None
    container = _CONTAINERS.get(get_origin(declared))
    if container is dict and (item_field := _item_of_map(field)) is not None:
        return _read_with(get, partial(_each_named, name, _maker(item_field, given[1])))
    made = _TIMES.get(field.message_type) or _maker(field, given[0] if container else declared)
    if container is not None:
        each = _same if made is _same else partial(_each, name, made)
        return lambda message: container(each(get(message)))
    plain = get if made is _same else _read_with(get, partial(_at, name, made))
    if field.has_presence and has_default:
        return lambda message: plain(message) if message.HasField(name) else _UNSET
    return plain


def _read_with(get: _Get, make: _Get) -> _Get:
    return lambda message: make(get(message))


def _maker(field: FieldDescriptor, kind: Any) -> Callable[[Any], object]:  # noqa: ANN401 - a type
    """Return a function that makes a dataclass or enum of a field; others are left as they are.

    Of a union, the first type is made; the others are alternatives that callers may write.
    """
    kind = next(iter(get_args(kind)), kind)
    if field.message_type is not None and _choices(field.message_type):
        return partial(_chosen, kind, field.message_type.oneofs[0].name)
    if is_dataclass(kind) and isinstance(kind, type):
        return partial(read_fields, kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return partial(_choice, field, kind)
    return _same


def _choice(field: FieldDescriptor, kind: type[Enum], number: int) -> Enum:
    try:
        return kind(number)
    except ValueError:
        raise InvalidArgument.of_field("", f"must be unset or one of {_names(field)}") from None


def _chosen(kind: Any, choice: str, message: Any) -> object:  # noqa: ANN401 - a message
    name = message.WhichOneof(choice)
    if name is None:
        raise InvalidArgument.of_field("", "has no value; set one of its kinds")
    found: object = getattr(message, name)
    return read_fields(kind, found) if isinstance(found, Message) else found


def _same(value: object) -> object:
    return value
