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
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
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
_PYTHON: dict[int, Any] = {
    FieldDescriptor.CPPTYPE_STRING: str,
    FieldDescriptor.CPPTYPE_BOOL: bool,
    FieldDescriptor.CPPTYPE_ENUM: int,
    FieldDescriptor.CPPTYPE_MESSAGE: str,
}
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|Infinity)|NaN", re.ASCII)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}", re.ASCII)
_ANY = "type.googleapis.com/google.rpc."


def read_message(raw: bytes, kind: Descriptor, max_bytes: int) -> Message:
    """Return the message that JSON says; nothing at all says an empty one.

    Raises MalformedMessage for what is no JSON object, InvalidField for a field that is unknown or
    of another type, and LimitExceeded for a message above `max_bytes`.
    """
    message = GetMessageClass(kind)()
    try:
        _fill(message, _parse(raw), "")
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
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise errors.InvalidField(name[:80], "stands twice in one object; say it once")
            seen.add(name)
    if not "".join(found).isascii():
        for name in found:
            if any("\ud800" <= character <= "\udfff" for character in name):
                raise errors.InvalidField(name[:80], "is half a character, a lone surrogate")
    return found


def _fill(message: Message, said: Any, place: str) -> None:  # noqa: ANN401 - JSON
    """Put what a JSON object says into a message. Raises InvalidField."""
    kind = message.DESCRIPTOR
    seen: set[str] = set()
    if not isinstance(said, dict):
        known = ", ".join(kind.fields_by_name)
        raise errors.InvalidField(place, f"must be a JSON object; its fields are {known}")
    for name, value in said.items():
        at = f"{place}.{name[:80]}".removeprefix(".")
        field = kind.fields_by_name.get(name) or kind.fields_by_camelcase_name.get(name)
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
        held = getattr(message, field.name)
        if not field.is_repeated:
            _put(partial(setattr, message, field.name), held, field, value, at)
        elif field.message_type is not None and field.message_type.GetOptions().map_entry:
            _fill_map(held, field.message_type.fields_by_name["value"], value, at)
        elif isinstance(value, list):
            is_message = field.message_type is not None
            for index, item in enumerate(value):
                new = held.add() if is_message else None
                _put(held.append, new, field, item, f"{at}[{index}]")
        else:
            raise errors.InvalidField(at, "must be a JSON array")


def _fill_map(held: Any, field: Any, said: Any, place: str) -> None:  # noqa: ANN401
    if not isinstance(said, dict):
        raise errors.InvalidField(place, "must be a JSON object")
    for name, value in said.items():
        new = None if field.message_type is None else held[name]
        _put(partial(held.__setitem__, name), new, field, value, f'{place}["{name[:80]}"]')


def _put(
    put: Callable[[Any], object],
    message: Any,  # noqa: ANN401 - the one to fill, where the field has one
    field: Any,  # noqa: ANN401 - protobuf has two kinds of descriptors
    value: Any,  # noqa: ANN401 - JSON
    place: str,
) -> None:
    """Put a value into a field, if it is of its kind. Raises InvalidField."""
    if field.message_type is not None:
        message.SetInParent()
        if field.message_type.full_name != "google.protobuf.Duration":
            _fill(message, value, place)
            return
        put = message.FromJsonString
    try:
        put(_scalar(value, field))
    except (ValueError, OverflowError, KeyError):
        raise errors.InvalidField(place, _rule(field)) from None


def _rule(field: Any) -> str:  # noqa: ANN401 - protobuf has two kinds of descriptors
    if field.type == FieldDescriptor.TYPE_BYTES:
        return "must be base64, without spaces and line ends"
    if field.enum_type is not None:
        return "takes " + ", ".join(each.name for each in field.enum_type.values if each.number)
    return _RULES[field.cpp_type]


def _scalar(value: Any, field: Any) -> Any:  # noqa: ANN401 - JSON
    """Return what is stored of a JSON value. Raises ValueError, OverflowError, and KeyError."""
    if field.cpp_type not in _PYTHON:
        return _number(value, is_whole=field.cpp_type != FieldDescriptor.CPPTYPE_DOUBLE)
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    if type(value) is not _PYTHON[field.cpp_type]:
        raise ValueError
    if field.type != FieldDescriptor.TYPE_BYTES:
        return value
    if not _BASE64.fullmatch(value):
        raise ValueError
    return urlsafe_b64decode(value.rstrip("=") + "==")


def _number(value: Any, *, is_whole: bool) -> float:  # noqa: ANN401 - JSON
    named = False
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        named = not value[-1].isdecimal()  # "Infinity" and "NaN", which have no other form
        value = int(value) if value.lstrip("-").isdecimal() else float(value)
    if type(value) not in {int, float} or (is_whole and value != int(value)):
        raise ValueError
    if not is_whole and not named and not math.isfinite(value):
        raise ValueError
    return int(value) if is_whole else float(value)
