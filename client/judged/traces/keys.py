"""The keys of a trace's objects: what each kind of value must be.

The checks that go beyond those of `Record`. Each raises FileError with line and key.
"""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import TypeVar

from judged.evaluation.datasets.files import Record

_SHA256 = re.compile(r"[0-9a-f]{64}")

Choice = TypeVar("Choice", bound=Enum)


def refuse_unknown(record: Record, known: AbstractSet[str]) -> None:
    """Refuse a key that the format does not have."""
    for key in record.fields:
        if key not in known:
            raise record.error(f"has {key!r}, which this version of the format does not know")


def share(record: Record, key: str, *, needed: bool = False) -> float | None:
    """Return a number from 0 to 1; None without one."""
    value = record.optional_number(key)
    if value is None and needed:
        raise record.error(f"has no {key!r}")
    if value is not None and not 0 <= value <= 1:
        raise record.error(f"has {key!r} {value:g}, which does not lie from 0 to 1")
    return value


def decision(record: Record, key: str, *, needed: bool = False) -> bool | None:
    """Return true or false; None without one."""
    value = record.optional_label(key)
    if value is None and needed:
        raise record.error(f"has no {key!r}")
    return value


def named(record: Record, key: str, choices: type[Choice]) -> Choice:
    """Return the member of an enumeration that a key names; it must be there."""
    value = record.text(key)
    if value not in choices.__members__:
        known = ", ".join(choices.__members__)
        raise record.error(f"has {key!r} {value!r}; it must be one of {known}")
    return choices[value]


def sha256(record: Record, key: str) -> str:
    """Return a SHA-256 in hex, which must be there."""
    return checked_sha256(record, key, record.text(key))


def checked_sha256(record: Record, key: str, value: str) -> str:
    """Return a value of a key that must be a SHA-256 in hex."""
    if not _SHA256.fullmatch(value):
        raise record.error(f"has {key!r} that is not a SHA-256 in hex")
    return value
