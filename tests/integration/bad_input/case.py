"""The form of a case, and values that are bad wherever they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

NAN = float("nan")
LONG = "x" * ((1 << 20) + 1)
TWO_FLOATS = b"\0\0\x80\x3f\0\0\x80\x3f"
NAN_FLOATS = b"\0\0\xc0\x7f\0\0\x80\x3f"


@dataclass(frozen=True)
class Case:
    field: str  # the field of the contract that is bad
    request: Callable[[], object]
    path: str  # the path the error must name
    code: str = "INVALID_ARGUMENT"


def case(field: str, path: str, request: Callable[[], object], code: str = "INVALID_ARGUMENT"):
    return Case(field, request, path, code)
