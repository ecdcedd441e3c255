"""Files that an operator writes, read into pydantic dataclasses; errors say where what is wrong.

A class of such a table has the configuration `STRICT`. Messages never quote a value: it may be a
key that was put in the wrong place.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pydantic

from judged_server.errors import did_you_mean
from judged_server.settings import SettingsError

STRICT = pydantic.ConfigDict(strict=True, extra="forbid")
"""Nothing is taken for another type: "5" is no number, and true is not 1."""

_UNKNOWN = "unexpected_keyword_argument"
_WORDS = {
    "bool_type": "must be true or false",
    "float_type": "must be a number, without quotes",
    "int_type": "must be a whole number, without quotes",
    "string_type": "must be a text, in quotes",
    "dataclass_type": "must be a table",
    "dict_type": "must be a table",
    "list_type": "must be an array",
    "tuple_type": "must be an array",
}
"""What pydantic's kinds of errors say here."""


def matching(pattern: str, rule: str) -> pydantic.AfterValidator:
    """Return the check that a string matches a pattern as a whole; `rule` says what it must be."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"must be {rule}")
        return value

    return pydantic.AfterValidator(check)


def read(form: Any, content: object, source: str, hints: Mapping[str, str] | None = None) -> Any:  # noqa: ANN401 - an instance of `form`
    """Return what a table says, those inside it included. Raises SettingsError.

    `hints` say of unknown keys why they are not here.
    """
    if not isinstance(content, dict):
        raise SettingsError(f"{source} must be a table")
    adapter = pydantic.TypeAdapter(form)
    try:
        # As JSON, where a list may be a tuple and a text a path, and nothing else is converted.
        return adapter.validate_json(json.dumps(content, default=_no_json))
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False)
    except ValueError as error:
        raise SettingsError(f"{source}: {error}") from None
    first = min(found, key=lambda each: each["type"] != _UNKNOWN)  # it may be what is missing
    kind, way = first["type"], list(first["loc"])
    if kind in {_UNKNOWN, "missing"}:
        *way, key = way
        says = "is missing" if kind == "missing" else (hints or {}).get(str(key))
        says = says or _unknown(str(key), adapter)
        shown = key if re.fullmatch(r"[\w-]{1,40}", str(key)) else "a key"
        raise SettingsError(f"{place_of(source, content, way)}: {shown} {says}")
    if kind == "value_error":
        says = str(first["ctx"]["error"])
    else:
        says = _WORDS.get(kind) or re.sub(
            "^[A-Za-z]+ should", "must", first["msg"].replace(" after validation", "")
        )
    place = place_of(source, content, way)
    gap = " " if says.startswith(("must", "has")) else ": "
    raise SettingsError(f"{place}{gap}{says}")


def place_of(source: str, content: Any, way: Iterable[str | int]) -> str:  # noqa: ANN401 - anything
    """Return how errors call a part of a file, such as "FILE: models[0] (small)"."""
    for part in way:
        if isinstance(part, int):
            content = content[part]
            name = content.get("name") if isinstance(content, dict) else None
            shown = isinstance(name, str) and re.fullmatch(r"[\w.:/-]{1,60}", name)
            source = f"{source}[{part}]" + (f" ({name})" if shown else "")
        elif isinstance(content, dict) and part in content:  # else it is the tag of a union
            content = content[part]
            source = f"{source}: {part}"
    return source


def _unknown(key: str, adapter: pydantic.TypeAdapter[Any]) -> str:
    """Return what is said of a key that is not in its table: a hint at one of the file's keys."""
    schema = adapter.json_schema()
    tables = (schema, *schema.get("$defs", {}).values())
    known = {name for table in tables for name in table.get("properties", ())} - {key}
    return f"is not known here; {did_you_mean(key, sorted(known), 'leave it out')}"


def _no_json(value: object) -> None:
    raise ValueError(f"it holds {type(value).__name__}s, which nothing here is; use quotes")


def content_of(path: Path, setting: str, most_bytes: int) -> bytes:
    """Return the bytes of a file that an operator wrote. Raises SettingsError."""
    try:
        with path.open("rb") as file:
            raw = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:  # a path with a zero byte
        why = getattr(error, "strerror", error)
        raise SettingsError(
            f"{setting} {path} can't be read: {why}; name a file that is there"
        ) from None
    if len(raw) > most_bytes:
        raise SettingsError(f"{setting} {path} is larger than {most_bytes} bytes")
    return raw


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
