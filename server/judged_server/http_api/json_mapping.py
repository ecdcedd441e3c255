"""Messages as JSON, by protobuf's own mapping, with the field names of the contract.

Reading takes the names in camelCase too, as the mapping wants it. What does not fit is an error
that names the field; no error quotes a value, which may be a text that is judged.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from judged.internal.v1 import status_pb2

from judged_server import errors

MOST_VALUES = 1_000_000
"""JSON values in one message. Python's parser lets nobody else run: so many take it 0.3 s at worst,
and those of 16 MiB of empty lists 1.4 s."""
_PLACE = r"((?:\.\w+(?:\[\d+\])?)+)"
_OF = {
    FieldDescriptor.CPPTYPE_STRING: " of strings",
    FieldDescriptor.CPPTYPE_BOOL: " of true and false",
    FieldDescriptor.CPPTYPE_DOUBLE: " of numbers",
    FieldDescriptor.CPPTYPE_FLOAT: " of numbers",
    FieldDescriptor.CPPTYPE_INT32: " of whole numbers",
    FieldDescriptor.CPPTYPE_INT64: " of whole numbers",
    FieldDescriptor.CPPTYPE_UINT32: " of whole numbers from 0",
    FieldDescriptor.CPPTYPE_UINT64: " of whole numbers from 0",
}
_NUMBER = re.compile(r"-?(?:[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|Infinity)|NaN", re.ASCII)
_NUMBERS = _OF.keys() - {FieldDescriptor.CPPTYPE_STRING, FieldDescriptor.CPPTYPE_BOOL}
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}", re.ASCII)
_ANY = "type.googleapis.com/google.rpc."


def read_message(raw: bytes, kind: Descriptor, max_bytes: int) -> Message:
    """Return the message that JSON says; nothing at all says an empty one.

    Raises MalformedMessage for what is no JSON object, InvalidField for a field that is unknown or
    of another type, and LimitExceeded for a message above `max_bytes`.
    """
    message = GetMessageClass(kind)()
    try:
        found = _parse(raw)
        _check(found, kind, "")
        ParseDict(found, message)
    except RecursionError:
        raise errors.MalformedMessage("the body is nested too deeply") from None
    except (ParseError, OverflowError) as error:
        raise _misfit(str(error), kind) from None
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


def _check(value: dict[str, Any], kind: Descriptor, path: str) -> None:
    """Raise InvalidField for unknown fields, and for messages that are no objects."""
    for name, part in value.items():
        place = f"{path}.{name[:80]}".removeprefix(".")
        field = kind.fields_by_name.get(name) or kind.fields_by_camelcase_name.get(name)
        if field is None:
            known = list(kind.fields_by_name)
            hint = errors.did_you_mean(name, known, f"it has {', '.join(known) or 'none'}")
            raise errors.InvalidField(place, f"is no field of {kind.full_name}; {hint}")
        if part is not None:
            _check_value(part, field, place)


def _check_value(part: Any, field: FieldDescriptor, place: str) -> None:  # noqa: ANN401 - JSON
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        _check_map(part, inner.fields_by_name["value"], place)
        return
    if field.is_repeated and not isinstance(part, list):
        raise errors.InvalidField(place, f"must be a JSON array{_of(field)}")
    if inner is None or inner.full_name.startswith("google.protobuf."):
        if field.type == FieldDescriptor.TYPE_STRING:
            _check_strings(part, place)
        parts = part if isinstance(part, list) else [part]
        if field.cpp_type in _NUMBERS:
            _check_numbers(parts, field, place)
        if field.enum_type is not None and any(isinstance(each, float) for each in parts):
            raise errors.InvalidField(place, f"takes{_of(field)[3:]}")  # Python cuts 1.5 to 1
        if field.type == FieldDescriptor.TYPE_BYTES and not _is_base64(part):
            # Protobuf passes over what does not belong there.
            raise errors.InvalidField(place, "must be base64, without spaces and line ends")
        return
    if not field.is_repeated:
        _check_object(part, inner, place)
        return
    for index, item in enumerate(part):
        _check_object(item, inner, f"{place}[{index}]")


def _check_map(part: Any, field: FieldDescriptor, place: str) -> None:  # noqa: ANN401 - JSON
    if not isinstance(part, dict):
        raise errors.InvalidField(place, "must be a JSON object")
    kind = field.message_type
    if kind is None:
        if field.cpp_type in _NUMBERS:
            _check_numbers(list(part.values()), field, place)
        return
    for name, value in part.items():
        if value is None:
            continue
        at = f'{place}["{name[:80]}"]'
        if not isinstance(value, dict):
            forms = ", ".join(kind.fields_by_name)
            raise errors.InvalidField(at, f"must be a JSON object with one of {forms}")
        _check(value, kind, at)


def _check_strings(part: Any, place: str) -> None:  # noqa: ANN401 - JSON
    if isinstance(part, str):
        return
    if not isinstance(part, list):
        raise errors.InvalidField(place, "must be a string")
    for index, item in enumerate(part):
        if not isinstance(item, str):
            raise errors.InvalidField(f"{place}[{index}]", "must be a string")


def _is_base64(part: Any) -> bool:  # noqa: ANN401 - JSON
    if not isinstance(part, str) or _BASE64.fullmatch(part) is None:
        return False
    return len(part.rstrip("=")) % 4 != 1


def _check_numbers(parts: list[Any], field: FieldDescriptor, place: str) -> None:
    """Raise InvalidField for what Python takes for a number and JSON does not, as "1_0"."""
    for part in parts:
        if isinstance(part, str) and not _NUMBER.fullmatch(part):
            raise errors.InvalidField(place, f"takes{_of(field)[3:]}, as JSON has them")
        if isinstance(part, int) and abs(part) > sys.float_info.max:
            raise errors.InvalidField(place, "is no number of 64 bits")


def _check_object(part: Any, kind: Descriptor, place: str) -> None:  # noqa: ANN401 - JSON
    if not isinstance(part, dict):
        raise errors.InvalidField(place, "must be a JSON object")
    _check(part, kind, place)


def _of(field: FieldDescriptor) -> str:
    """Return which values a field takes, " of strings" or so; "" where that is no simple one."""
    if field.enum_type is not None:
        names = ", ".join(value.name for value in field.enum_type.values if value.number)
        return f" of {names}"
    return _OF.get(field.cpp_type, "")


def _field_at(place: str, kind: Descriptor) -> FieldDescriptor | None:
    found: FieldDescriptor | None = None
    inner: Descriptor | None = kind
    for name in re.sub(r"\[\d+\]", "", place).split("."):
        if inner is None:
            return None
        found = inner.fields_by_name.get(name) or inner.fields_by_camelcase_name.get(name)
        inner = None if found is None else found.message_type
    return found


def _misfit(said: str, kind: Descriptor) -> errors.InvalidField:
    """Return the error of what protobuf could not read, without its words: they quote the value."""
    places = re.findall(rf'at "?{kind.name}{_PLACE}', said)
    fields = re.findall(r"Failed to parse (\w+) field", said)
    place = places[0][1:] if places else ".".join(fields)
    field = _field_at(place, kind)
    values = "" if field is None else _of(field).removeprefix(" of ")
    wanted = f"takes {values}" if values else "is of another type than the contract says"
    return errors.InvalidField(place or "message", f"{wanted}; see /openapi.json")
