"""Messages as JSON, by protobuf's own mapping, with the field names of the contract.

Reading takes the names in camelCase too, as the mapping wants it; protobuf's own reader would
convert in silence what does not fit. Here it is an error that names the field; no error quotes a
value, which may be a text that is judged.
"""

from __future__ import annotations

import json
import math
import re
from base64 import urlsafe_b64decode
from collections import Counter
from functools import cache
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from judged.internal.v1 import status_pb2

from judged_server import errors

MOST_VALUES = 1_000_000
"""JSON values in one message. Python's parser lets nobody else run: so many take it 0.3 s at worst,
and those of 16 MiB of empty lists 1.4 s."""
_RULES: dict[int, str] = {
    FieldDescriptor.CPPTYPE_STRING: "must be a string, without lone surrogates",
    FieldDescriptor.CPPTYPE_BOOL: "takes true and false",
    FieldDescriptor.CPPTYPE_DOUBLE: "takes numbers, written as in JSON, of 64 bits",
    FieldDescriptor.CPPTYPE_INT32: "takes whole numbers of 32 bits",
    FieldDescriptor.CPPTYPE_INT64: "takes whole numbers of 64 bits",
    FieldDescriptor.CPPTYPE_UINT32: "takes whole numbers from 0, of 32 bits",
    FieldDescriptor.CPPTYPE_UINT64: "takes whole numbers from 0, of 64 bits",
    FieldDescriptor.CPPTYPE_MESSAGE: 'takes seconds, as "1.5s"',
}
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
    """Return the message that JSON says; nothing at all says an empty one.

    Raises MalformedMessage for what is no JSON object, InvalidField for a field that is unknown or
    of another type, and LimitExceeded for a message above `max_bytes`.
    """
    try:
        message = GetMessageClass(kind)(**_fields(kind, _parse(raw), ""))
    except RecursionError:
        raise errors.MalformedMessage("the body is nested too deeply") from None
    # Numbers may take more bytes than their digits.
    size = message.ByteSize()
    if size > max_bytes:
        raise errors.LimitExceeded("message", "bytes as protobuf", max_bytes, size)
    return message


def count_values(raw: bytes) -> int:
    """Return how many fields take as much memory as JSON and its message do at most.

    Raises LimitExceeded for more than MOST_VALUES.
    """
    values = raw.count(b",") + raw.count(b"[") + raw.count(b"{")
    if values > MOST_VALUES:
        raise errors.LimitExceeded(
            "message", "JSON values, by its commas and brackets", MOST_VALUES, values
        )
    return 2 * values


def to_json(message: Message) -> bytes:
    """Return a message as JSON, fields with their defaults included, but for unset ones."""
    return orjson.dumps(
        MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
    )


def status_json(status: status_pb2.Status) -> bytes:
    """Return a google.rpc.Status as JSON, its details by the names that they have there."""
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
        found = json.loads(raw or b"{}", object_pairs_hook=_without_twins)
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


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise errors.InvalidField(name[:80], "stands twice in one object; say it once")
    return found


@cache
def _by_name(kind: Descriptor) -> dict[str, FieldDescriptor]:
    # Protobuf's own mappings raise for names of half a character.
    return {**kind.fields_by_camelcase_name, **kind.fields_by_name}


def _fields(kind: Descriptor, said: Any, place: str) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return what a JSON object says, as the class of its message takes it. Raises InvalidField."""
    if not isinstance(said, dict):
        known = ", ".join(kind.fields_by_name)
        raise errors.InvalidField(place, f"must be a JSON object; its fields are {known}")
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for name, value in said.items():
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
        elif of is not None and of.GetOptions().map_entry:
            if not isinstance(value, dict):
                raise errors.InvalidField(at, "must be a JSON object")
            keys, values = of.fields
            places = {key: f'{at}["{key[:80]}"]' for key in value}
            found[field.name] = {
                _value(keys, key, places[key]): _value(values, item, places[key])
                for key, item in value.items()
            }
        elif isinstance(value, list):
            found[field.name] = [
                _value(field, item, f"{at}[{index}]") for index, item in enumerate(value)
            ]
        else:
            raise errors.InvalidField(at, "must be a JSON array")
    return found


def _value(field: FieldDescriptor, value: Any, place: str) -> Any:  # noqa: ANN401 - JSON
    """Return a value as its field takes it, if it is of its kind. Raises InvalidField."""
    of = field.message_type
    if of is not None and of.full_name != Duration.DESCRIPTOR.full_name:
        return _fields(of, value, place)
    try:
        return _scalar(field, value)
    except (ValueError, OverflowError, KeyError):
        raise errors.InvalidField(place, _rule(field)) from None


def _rule(field: FieldDescriptor) -> str:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "must be base64, without spaces and line ends"
    if field.enum_type is not None:
        return "takes " + ", ".join(each.name for each in field.enum_type.values if each.number)
    return _RULES[field.cpp_type]


def _scalar(field: FieldDescriptor, value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return what is stored of a JSON value. Raises ValueError, OverflowError, and KeyError."""
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
    """Return a number, which the mapping lets be a text too."""
    number, written = value, isinstance(value, str)
    if written:
        number = json.loads(value)
    if type(number) not in {int, float} or (written and value != value.strip()):
        raise ValueError
    if not math.isfinite(number) and value not in _NOT_FINITE:
        raise ValueError
    return number  # type: ignore[no-any-return]
