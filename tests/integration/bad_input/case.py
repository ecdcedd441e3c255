"""The form of a case, and values that are bad wherever they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NAN = float("nan")
LONG = "x" * ((1 << 20) + 1)
TWO_FLOATS = b"\0\0\x80\x3f\0\0\x80\x3f"
NAN_FLOATS = b"\0\0\xc0\x7f\0\0\x80\x3f"


@dataclass(frozen=True)
class Case:
    path: str  # the path the error must name
    request: Callable[[], Any]
    code: str = "INVALID_ARGUMENT"
    field: str = ""  # the field of the contract that is bad, where the path names another

    @property
    def covers(self) -> set[str]:
        """The fields that lead to the one that is bad, each as Message.field."""
        kind, found = self.request().DESCRIPTOR, {self.field}
        for part in self.path.split(".") if self.path else ():
            field = kind.fields_by_name.get(part.partition("[")[0])
            if field is not None:  # else it is a oneof
                found.add(f"{kind.full_name.removeprefix('judged.v1.')}.{field.name}")
                kind = field.message_type
        return found
