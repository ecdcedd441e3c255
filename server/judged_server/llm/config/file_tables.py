"""Tables of files that an operator writes, as pydantic dataclasses; errors say what to do where.

A class of such a table is a pydantic dataclass with the configuration `STRICT`. The description of
a field is its rule, so that a message reads "FILE: TABLE: KEY must be RULE". Messages never quote a
value: it may be a key that was put in the wrong place.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date, time
from enum import Enum
from typing import Any, TypeVar

import pydantic
from pydantic_core import ErrorDetails

from judged_server.errors import did_you_mean
from judged_server.settings import SettingsError

STRICT = pydantic.ConfigDict(strict=True, extra="forbid")
"""Nothing is taken for another type: "5" is no number, and true is not 1."""

T = TypeVar("T")


def text(rule: str, pattern: str, default: object = ..., longest: int | None = None) -> Any:  # noqa: ANN401 - it stands where a default does
    """Return the field of a string that matches `pattern` as a whole."""
    return pydantic.Field(default, pattern=f"^(?:{pattern})$", max_length=longest, description=rule)


def number(lowest: float, highest: float, default: float | None) -> Any:  # noqa: ANN401
    """Return the field of a number from `lowest` to `highest`."""
    rule = f"a number from {lowest:.12g} to {highest:.12g}"
    return pydantic.Field(default, ge=lowest, le=highest, description=rule)


def whole_number(lowest: int, highest: int, default: object = ...) -> Any:  # noqa: ANN401
    """Return the field of a whole number from `lowest` to `highest`."""
    rule = f"a whole number from {lowest} to {highest}"
    return pydantic.Field(default, ge=lowest, le=highest, description=rule)


def flag(default: bool) -> Any:  # noqa: ANN401
    """Return the field of a truth value."""
    return pydantic.Field(default, description="true or false")


def one_of(words: Collection[str], default: object) -> Any:  # noqa: ANN401
    """Return the field of one of some words, of an enumeration or a literal."""
    # An enumeration in strict mode takes its members alone, not their words.
    strict = False if isinstance(default, Enum) else None
    return pydantic.Field(default, strict=strict, description="one of " + ", ".join(words))


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table stands: the file, and the way to it. All errors of it begin with that."""

    where: str

    def fault(self, key: str, rule: str) -> SettingsError:
        """Return the error of a key that breaks a rule."""
        return SettingsError(f"{self.where}: {key} {rule}")

    def inner(self, key: str) -> Place:
        """Return the place of the table under a key."""
        return Place(f"{self.where}: {key}")

    def tables(self, content: object, key: str) -> list[tuple[Place, dict[str, Any]]]:
        """Return the tables of an array of tables under a key, each with its place and name."""
        items = self.table(content).get(key, [])
        if not isinstance(items, list):
            raise self.fault(key, f"must be tables; begin each with [[{key}]]")
        places = [self.inner(f"{key}[{at}]{_named(item)}") for at, item in enumerate(items)]
        return [(place, place.table(item)) for place, item in zip(places, items, strict=True)]

    def table(self, content: object) -> dict[str, Any]:
        """Return what should be a table. Raises SettingsError."""
        if not isinstance(content, dict):
            raise SettingsError(f"{self.where} must be a table")
        return content

    def read(
        self, form: Callable[..., T], content: object, hints: Mapping[str, str] | None = None
    ) -> T:
        """Return what a table says, as a value of a class made as the module says.

        `hints` say of unknown keys why they are not here. Raises SettingsError.
        """
        content = self.table(content)
        fields: dict[str, pydantic.fields.FieldInfo] = form.__pydantic_fields__  # type: ignore[attr-defined]
        try:
            value = form(**{key: content[key] for key in fields if key in content})
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = str(first["loc"][0])
            rule = fields[key].description or ""
            raise self.fault(key, _broken(first, rule)) from None
        for key in content:
            if key not in fields:
                raise self._unknown(key, fields, hints or {})
        return value

    def _unknown(self, key: str, known: Collection[str], hints: Mapping[str, str]) -> SettingsError:
        rendered = key if re.fullmatch(r"[\w-]{1,40}", key) else "a key"
        if key in hints:
            return self.fault(rendered, hints[key])
        hint = did_you_mean(key, known, "known: " + ", ".join(known))
        return self.fault(rendered, f"is not known; {hint}")


def read_toml(
    raw: bytes, source: str, tell: Callable[[tomllib.TOMLDecodeError], str] = str
) -> object:
    """Return what a file holds; `source` is named in errors, `tell` says what is wrong.

    Raises SettingsError.
    """
    text = text_of(raw, source)
    try:
        return tomllib.loads(text)
    except RecursionError:
        why = "it nests too deep"
    except tomllib.TOMLDecodeError as error:
        why = tell(error)
    except ValueError:
        why = "a number in it has too many digits"
    raise SettingsError(f"{source} is not TOML: {why}")


def text_of(raw: bytes, source: str) -> str:
    """Return a file's text, without the mark that some editors begin UTF-8 with.

    Raises SettingsError.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{source}: the file is not UTF-8; save it as that") from None


def _broken(error: ErrorDetails, rule: str) -> str:
    """Return what is wrong with a key, by pydantic's first error about it."""
    kind, value = error["type"], error["input"]
    if kind == "missing":
        return f"is missing; it must be {rule}"
    if kind == "string_too_long":
        return f"has {len(value):,} characters; make it {error['ctx']['max_length']:,} at most"
    hint = ""
    if isinstance(value, str) and kind in {"int_type", "float_type", "bool_type"}:
        hint = ", without quotes"
    elif len(error["loc"]) == 1 and kind in {"string_type", "literal_error"}:
        hint = _quote_hint(value)
    return f"must be {rule}{hint}"


def _quote_hint(value: object) -> str:
    """Return what to add where a text was wanted and something else was read."""
    if isinstance(value, bool):
        read = "true or false"
    elif isinstance(value, int | float):
        read = "a number"
    elif isinstance(value, date | time):
        read = "a date or a time"
    else:
        return ""
    return f"; put it in quotes, for without them it is read as {read}"


def _named(item: object) -> str:
    """Return the name of a table in brackets, where it has one that can be shown."""
    name = item.get("name") if isinstance(item, dict) else None
    return f" ({name})" if isinstance(name, str) and re.fullmatch(r"[\w.:/-]{1,60}", name) else ""
