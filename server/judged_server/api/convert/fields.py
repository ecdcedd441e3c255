"""Fields that messages and values of the domain share, written and read by their names."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeVar

from google.protobuf.message import Message
from judged._codec import UnknownChoice, read_fields

from judged_server.errors import InvalidField, full_names

_Message = TypeVar("_Message", bound=Message)
_Choice = TypeVar("_Choice", bound=IntEnum)
_Value = TypeVar("_Value")


def write(kind: type[_Message], value: object, **others: Any) -> _Message:  # noqa: ANN401 - of any field
    """Return a message whose fields hold what the attributes of their names do in `value`.

    `others` are the fields that hold something else; what is None stays unset. Raises
    AttributeError where neither has a field. What a call may have thousands of is not written so,
    since a constructor takes half the time.
    """
    names = kind.DESCRIPTOR.fields_by_name
    same = {name: getattr(value, name) for name in names if name not in others}
    return kind(**same, **others)


def read(kind: type[_Value], message: Message, path: str) -> _Value:
    """Return the value of a message at a path. Raises InvalidField for an unknown choice."""
    try:
        return read_fields(kind, message)
    except UnknownChoice as unknown:
        raise InvalidField(f"{path}.{unknown.field}", unknown.rule) from None


def optional(message: Message, name: str) -> Any:  # noqa: ANN401 - of any type of field
    """Return what an optional field holds, None where it is unset."""
    return getattr(message, name) if message.HasField(name) else None


def read_choice(
    message: Message, name: str, default: _Choice, path: str = "", named: str = ""
) -> _Choice:
    """Return a field as the enumeration of its default, which it has where it is unset.

    The contract calls it `named`, or as it is called here. Raises InvalidField at the field, below
    `path` with its dot, for a number that stands for none.
    """
    if not message.HasField(name):
        return default
    kind = type(default)
    if getattr(message, name) not in set(kind):
        raise InvalidField(f"{path}{name}", f"must be unset or one of {full_names(kind, named)}")
    return kind(getattr(message, name))
