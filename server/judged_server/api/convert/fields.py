"""Values out of messages, with the path of what can't be read."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import Message
from judged._codec import UnknownChoice, read_fields

from judged_server.errors import InvalidField

_Value = TypeVar("_Value")


def read(kind: type[_Value], message: Message, path: str = "", **others: object) -> _Value:
    """Return the value of a message at a path. Raises InvalidField for an unknown choice."""
    try:
        return read_fields(kind, message, **others)
    except UnknownChoice as unknown:
        raise InvalidField(f"{path}.{unknown.field}".lstrip("."), unknown.rule) from None


def need(given: bool, field: str, rule: str) -> None:
    """Raise InvalidField where something is not given."""
    if not given:
        raise InvalidField(field, rule)
