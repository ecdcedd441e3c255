"""Reads lines and JSON from files, with the place of errors; writes files atomically."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shutil
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from difflib import get_close_matches
from enum import Enum, Flag, StrEnum
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import (
    Any,
    BinaryIO,
    NamedTuple,
    NoReturn,
    TextIO,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

Value = TypeVar("Value")
Key = TypeVar("Key")

_NEARLY = 0.8
"""The similarity, by difflib, from which a name may be a misspelling of another."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_JOINED = "begins with a byte order mark: two files were joined here; take the mark out"
_OTHER_NAMES = ("question", "user_input", "prompt", "input", "query_text", "query")
"""Names of the query's field in other tools."""
_IN_CALLS = {
    "expected": "expected_answers",
    "negatives": "negative_answers",
    "grades": "doc_grades",
    "spans": "expected_spans",
}
"""Names of fields in calls, with those in files."""
SYSTEM_MODEL = "system_model"
"""The field of a line with the name of the language model that made its texts."""
_NO_LETTERS = re.compile(r"[\W_]+")
_FLAT = (str, int, float)
_LABELS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


class FileError(Exception):
    """A file can't be read or breaks its format.

    `line` counts from 1; None refers to the file as a whole.
    """

    __module__ = "judged.evaluation"

    def __init__(self, name: str, line: int | None, problem: str) -> None:
        place = name if line is None else f"{name}:{line}"
        super().__init__(f"{place}: {problem}")
        self.name = name
        self.line = line
        self.problem = problem


class FileWarning(UserWarning):
    """A problem in a file that does not keep it from being read."""


class KnownFields:
    """The fields that a format reads; others are the user's own, unless their names are similar."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self._seen = set(names)

    def check(self, record: Record) -> None:
        """Warn (FileWarning) of fields with names similar to known ones, once for each name."""
        for name in record.fields:
            if name in self._seen:
                continue
            self._seen.add(name)
            plain = _NO_LETTERS.sub("_", name).casefold()
            plain = _IN_CALLS.get(plain, plain)
            if near := get_close_matches(plain, self.names, n=1, cutoff=_NEARLY):
                near_miss = f"has {name!r}, which is no known field; did you mean {near[0]!r}?"
                warnings.warn(FileWarning(str(record.error(near_miss))), stacklevel=3)


@contextmanager
def open_file(path: Path | str) -> Iterator[BinaryIO]:
    """Open a file for reading. Raises FileError, also for errors while reading."""
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            yield file
    except FileNotFoundError:
        raise FileError(name, None, "there is no such file") from None
    except OSError as error:
        raise FileError(name, None, f"can't be read: {error.strerror or error}") from None


def read_bytes(path: Path | str) -> bytes:
    """Return the content of a file, without a byte order mark. Raises FileError."""
    with open_file(path) as file:
        return file.read().removeprefix(_BYTE_ORDER_MARK)


def read_lines(path: Path | str, empty: str = "") -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line) of every line that is not blank; see `number_lines`."""
    with open_file(path) as file:
        yield from number_lines(file, str(path), empty)


def number_lines(lines: Iterable[bytes], name: str, empty: str = "") -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line) of the lines of a file that are not blank.

    Raises FileError, with the message `empty`, if that is given and there are no such lines.
    """
    is_empty = True
    for number, line in enumerate(lines, 1):
        if number > 1 and line.startswith(_BYTE_ORDER_MARK):
            raise FileError(name, number, _JOINED)
        text = line.removeprefix(_BYTE_ORDER_MARK)
        if text.strip():
            is_empty = False
            yield number, text
    if is_empty and empty:
        raise FileError(name, None, empty)


def read_records(path: Path | str, empty: str = "") -> Iterator[Record]:
    """Yield the JSON object of every line that is not blank; see `number_lines`."""
    with open_file(path) as file:
        yield from number_records(file, str(path), empty)


def number_records(lines: Iterable[bytes], name: str, empty: str = "") -> Iterator[Record]:
    """Yield the JSON objects of the lines of the file `name`; see `number_lines`."""
    for number, raw in number_lines(lines, name, empty):
        yield Record.parse(raw, name, number)


def read_object(path: Path | str) -> Record:
    """Return the JSON object in a file. Raises FileError."""
    return Record.parse(read_bytes(path), str(path), None)


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Convert an OSError of the body into a FileError for this file."""
    try:
        yield
    except OSError as error:
        problem = f"can't be written: {error.strerror or error}"
        raise FileError(str(path), None, problem) from None


def json_line(value: object) -> str:
    """Return a value as a line of JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def parse_json(raw: bytes, name: str, line: int | None) -> object:
    """Return the value of a JSON text.

    Raises FileError, also for what Python would accept: NaN, infinities and numbers that are too
    large, repeated fields, and escapes of lone surrogates, which UTF-8 can't encode.
    """
    text = decode(raw, name, line)
    try:
        return decode_json(text)
    except json.JSONDecodeError as error:
        inner = f"line {error.lineno} " if line is None else ""
        problem = f"is not JSON: {error.msg.removesuffix(' at')} at {inner}column {error.colno}"
        hint = _hint(text[: error.pos].rstrip(), text[error.pos :])
        problem += hint or ("" if line is None else "; write one whole object on each line")
    except NotAllowed as error:
        problem = str(error)
    except RecursionError:
        problem = "is nested too deeply; write flatter objects"
    except ValueError:
        problem = "holds a whole number with too many digits; write it as text, in quotes"
    raise FileError(name, line, problem)


class NotAllowed(Exception):
    """A JSON text has something that Python accepts but we refuse."""


def _object_of(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise NotAllowed(f"has {twice!r} twice; keep one of them")
    return found


def _number_of(text: str) -> float:
    value = float(text)
    if math.isinf(value):  # JSON writers can't write it
        raise NotAllowed(f"holds {text[:80]}, which is too large for a number")
    return value


def _hint(before: str, rest: str) -> str:
    """Return a hint for a syntax error before `rest`; "" if none is known."""
    if rest[:1] in ("]", "}") and before.endswith(","):
        return f"; take out the comma before the {rest[0]}"
    if rest.startswith(("'", "True", "False", "None")):
        return "; this is Python's notation, as str() writes it: write JSON, as json.dumps does"
    return ""


def decode(raw: bytes, name: str, line: int | None) -> str:
    """Return the text of UTF-8 bytes. Raises FileError."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        what = f"not UTF-8: {error.reason} at byte {error.start}"
        what = "UTF-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else what
        raise FileError(name, line, f"is {what}; save it as UTF-8") from None
    if (joined := text.find("\n\ufeff")) >= 0:
        raise FileError(name, text.count("\n", 0, joined) + 2, _JOINED)
    return text


def _refuse_constant(name: str) -> NoReturn:
    raise NotAllowed(f"is not JSON: {name} is no JSON number")


_DECODER = json.JSONDecoder(
    parse_float=_number_of, parse_constant=_refuse_constant, object_pairs_hook=_object_of
)
"""Decodes JSON as `parse_json` does, without the check for lone surrogates. Raises NotAllowed."""


def decode_json(text: str) -> object:
    """Return the value of a JSON text. Raises NotAllowed, ValueError and RecursionError."""
    value: object = _DECODER.decode(text)
    try:
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        problem = "holds half of a surrogate pair (\\ud800 to \\udfff), which UTF-8 can't carry"
        raise NotAllowed(problem) from None
    return value


def as_label(value: object) -> bool | None:
    """Return True or False for a label: also 1, 0, and texts in any case; None for other values."""
    return _LABELS.get(str(value).strip().lower())


class _Kind(NamedTuple):
    """The rule that a value must follow, and its conversion."""

    rule: str
    fits: Callable[[Any], bool]
    make: Callable[[Any], Any] = lambda value: value


def _is(value: object, *types: type) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)


_TEXT = _Kind("that is not text but {}", lambda value: isinstance(value, str))
_ID = _Kind("that is neither text nor a whole number", lambda value: _is(value, str, int), str)
_NUMBER = _Kind(
    "that is not a number but {}",
    lambda value: _is(value, int, float) and abs(value) <= sys.float_info.max,
    float,
)
_SHARE = _Kind(
    "that is not a number from 0 to 1", lambda value: _NUMBER.fits(value) and 0 <= value <= 1, float
)
_CHANCE = _Kind(
    "that is not a number above 0 and at most 1",
    lambda value: _SHARE.fits(value) and value > 0,
    float,
)
_COUNT = _Kind(
    "that is not a whole number from 0 to 2^64 - 1",
    lambda value: _is(value, int) and 0 <= value < 2**64,
)
_LABEL = _Kind(
    "that is neither true nor false; 1 and 0 are read as true and false",
    lambda value: as_label(value) is not None,
    as_label,
)
_LIST = _Kind("that is not a list but {}", lambda value: isinstance(value, list))
_KINDS = {str: _TEXT, float: _NUMBER, int: _COUNT, bool: _LABEL}


class Record:
    """A JSON object of a file; its fields are checked when read. `what` names it in errors."""

    def __init__(self, value: object, name: str, line: int | None, what: str) -> None:
        self.name, self.line = name, line
        self._what = what
        if not isinstance(value, Mapping):
            raise self.error("must be an object, with braces")
        self.fields: Mapping[str, object] = value

    @classmethod
    def parse(cls, raw: bytes, name: str, line: int | None) -> Record:
        """Return the object of a JSON text. Raises FileError."""
        return cls(parse_json(raw, name, line), name, line, "")

    @property
    def place(self) -> str:
        """The place of the object, for people: its file and line, or its path."""
        line = "" if self.line is None else f":{self.line}"
        return f"{self.name}{line}" if not self._what else f"{self.name}{line}: {self._what}"

    def error(self, problem: str) -> FileError:
        """Return the error for a problem of this object."""
        return FileError(self.name, self.line, f"{self._what} {problem}".lstrip())

    def missing(self, names: Sequence[str]) -> FileError:
        """Return the error for a missing field, with the field here that may be meant.

        That is one with another tool's name for the query, or with a similar name.
        """
        others = _OTHER_NAMES if names[0] in _OTHER_NAMES else ()
        here = [each for each in self.fields if each not in names]
        near = [each for each in others if each in here]
        near += get_close_matches(names[0], here, 1, _NEARLY)
        hint = f"; is it what is called {near[0]!r} here?" if near else ""
        return self.error(f"has no {' or '.join(map(repr, names))}{hint}")

    def get(self, *names: str) -> object:
        """Return the first of the fields that is present and not null, else None."""
        for name in names:
            if (value := self.fields.get(name)) is not None:
                return value
        return None

    def _optional(self, kind: _Kind, *names: str) -> Any:  # noqa: ANN401 - what the kind makes
        value = self.get(*names)
        return None if value is None else self.made(kind, names[0], value)

    def made(self, kind: _Kind, name: str, value: object) -> Any:  # noqa: ANN401 - the same
        """Return the value of a field, converted by its kind. Raises FileError."""
        if not kind.fits(value):
            raise self.error(f"has {name!r} {kind.rule.format(_kind(value))}")
        return kind.make(value)

    def text(self, *names: str) -> str:
        """Return a text field; it is required."""
        if type(value := self.fields.get(names[0])) is str:
            return value
        return self._needed(_TEXT, *names)  # type: ignore[no-any-return]

    def position(self, *names: str) -> int:
        """Return a whole number from 0 to 2^64 - 1; it is required."""
        return self._needed(_COUNT, *names)  # type: ignore[no-any-return]

    def _needed(self, kind: _Kind, *names: str) -> Any:  # noqa: ANN401 - what the kind makes
        value = self._optional(kind, *names)
        if value is None or (kind is _ID and not value):
            raise self.missing(names)
        return value

    def identifier(self, *names: str) -> str:
        """Return an id that is not empty; it is required."""
        return self._needed(_ID, *names)  # type: ignore[no-any-return]

    def label(self, name: str) -> bool:
        """Return true or false; it is required."""
        return self._needed(_LABEL, name)  # type: ignore[no-any-return]

    def optional_text(self, name: str) -> str | None:
        """Return a text; None without one."""
        return self._optional(_TEXT, name)  # type: ignore[no-any-return]

    def optional_number(self, name: str) -> float | None:
        """Return a number; None without one."""
        return self._optional(_NUMBER, name)  # type: ignore[no-any-return]

    def share(self, name: str) -> float | None:
        """Return a number from 0 to 1; None without one."""
        return self._optional(_SHARE, name)  # type: ignore[no-any-return]

    def chance(self, name: str) -> float | None:
        """Return a probability that is above 0; None without one."""
        return self._optional(_CHANCE, name)  # type: ignore[no-any-return]

    def refuse_again(self, seen: dict[Key, int | None], key: Key, problem: str) -> None:
        """Raise FileError if an earlier line has the key; {} in `problem` is that line's number."""
        if (first := seen.setdefault(key, self.line)) != self.line:
            raise self.error(problem.replace("{}", str(first)))

    def optional_label(self, name: str) -> bool | None:
        """Return true or false; None if the field is absent or null. Raises FileError."""
        return self._optional(_LABEL, name)  # type: ignore[no-any-return]

    def optional_identifier(self, *names: str) -> str | None:
        """Return an id that is text or a whole number, as text; None without one."""
        return self._optional(_ID, *names)  # type: ignore[no-any-return]

    def items(self, *names: str) -> Sequence[object]:
        """Return a list; an empty one if it is missing."""
        return self._optional(_LIST, *names) or ()

    def identifiers(self, *names: str) -> list[str]:
        """Return a list of ids; an empty one if it is missing."""
        return [self.made(_ID, names[0], value) for value in self.items(*names)]

    def texts(self, *names: str) -> list[str]:
        """Return a list of texts; an empty one if it is missing."""
        items = enumerate(self.items(*names))
        return [self.made(_TEXT, f"{names[0]}[{at}]", value) for at, value in items]

    def alternatives(self) -> list[str]:
        """Return `expected_text`, and those of `expected_alternatives` that are not blank.

        One of the two is required.
        """
        found = [text for text in self.texts("expected_alternatives") if text.strip()]
        if not found or self.get("expected_text") is not None:
            found.insert(0, self.text("expected_text"))
        return list(dict.fromkeys(found))

    def record(self, name: str) -> Record | None:
        """Return an object; None without one."""
        value = self.get(name)
        return None if value is None else self.inner(value, name)

    def fields_of(self, name: str) -> dict[str, Any]:
        """Return the fields of an object; none without one."""
        inner = self.record(name)
        return {} if inner is None else dict(inner.fields)

    def records(self, name: str) -> list[Record]:
        """Return a list of objects; an empty one if it is missing."""
        return [self.inner(value, f"{name}[{at}]") for at, value in enumerate(self.items(name))]

    def inner(self, value: object, name: str) -> Record:
        """Return an inner object of this one, with its path."""
        return Record(value, self.name, self.line, f"{self._what}.{name}".lstrip("."))

    def labels(self, name: str) -> dict[str, str]:
        """Return an object of plain values as texts.

        Lists and objects are left out, with a warning (FileWarning) for each key.
        """
        found: dict[str, str] = {}
        for key, value in self.fields_of(name).items():
            if isinstance(value, _FLAT):
                found[key] = value if isinstance(value, str) else json.dumps(value)
            elif value is not None:
                such = f"such as {key!r}, {_kind(value)}; write them as texts"
                text = f"{self.name}: lists and objects in {name} are left out, {such}"
                warnings.warn(FileWarning(text), stacklevel=3)
        return found

    def read(self, kind: type[Value], /, **others: object) -> Value:
        """Return a dataclass read from the fields with the same names.

        The types say how each is read; one that is missing or null is None if it may be, or has its
        default. `others` are fields that are stored in another form. Unknown fields are ignored;
        see `refuse_unknown`. Raises FileError.
        """
        made = dict(others)
        for name, read, needed, none in _parts(kind):  # type: ignore[arg-type]  # hashable
            if name in others:
                continue
            value = self.fields.get(name)
            if value is not None:
                made[name] = read(self, name, value)
            elif none and (needed or name in self.fields):
                made[name] = None
            elif needed:
                raise self.missing((name,))
        return kind(**made)

    def value(self, name: str, declared: Any) -> Any:  # noqa: ANN401 - of the declared type
        """Return a field, converted as `read` converts fields of this type; it is required."""
        if (value := self.get(name)) is None:
            raise self.missing((name,))
        return _reader(declared)(self, name, value)

    def check_format(self, name: str, version: int, writer: str) -> None:
        """Raise FileError for another format or version; `writer` is what writes this format."""
        problem = f"has no 'format' {name!r}; {writer} writes one"
        if self.get("format") == name:
            if (found := self.position("version")) == version:
                return
            problem = f"has 'version' {found}, and this judged reads {version}; make it again"
        raise self.error(problem)

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Raise FileError for a field that the format does not have."""
        for name in self.fields:
            if name not in known:
                raise self.error(f"has {name!r}, which this version of the format does not know")


_Read = Callable[["Record", str, Any], Any]
"""Converts a value of a record; gets the record, the name and the value. Raises FileError."""


@cache
def _parts(kind: Any) -> Sequence[tuple[str, _Read, bool, bool]]:  # noqa: ANN401 - a dataclass
    """Return, per field, its name, its reader, and whether it is required and may be None."""
    types = get_type_hints(kind)
    return [
        (
            part.name,
            _reader(types[part.name]),
            part.default is part.default_factory is MISSING,
            NoneType in get_args(types[part.name]),
        )
        for part in fields(kind)
    ]


@cache
def _reader(declared: Any) -> _Read:  # noqa: ANN401 - any type of a field
    """Return the function that reads a value of a type."""
    inner = [each for each in get_args(declared) if each is not NoneType]
    origin = get_origin(declared)
    if origin in (Mapping, Sequence, tuple):
        each = _reader(inner[0] if origin is tuple else inner[-1])
        return partial(_read_object if origin is Mapping else _read_list, each, origin)
    if inner:
        return partial(_read_union, inner)
    if is_dataclass(declared):
        return lambda record, name, value: record.inner(value, name).read(declared)  # type: ignore[arg-type]  # a class
    if declared is datetime:
        return _read_time
    if issubclass(declared, Enum):
        return partial(_read_flags if issubclass(declared, Flag) else _read_choice, declared)
    return lambda record, name, value: record.made(_KINDS[declared], name, value)


def _read_object(each: _Read, _: type, record: Record, name: str, value: object) -> dict[str, Any]:
    found = record.inner(value, name)
    return {key: each(found, key, item) for key, item in found.fields.items()}


def _read_list(each: _Read, kind: type, record: Record, name: str, value: object) -> Sequence[Any]:
    items = record.made(_LIST, name, value)
    made = [each(record, f"{name}[{at}]", item) for at, item in enumerate(items)]
    return tuple(made) if kind is tuple else made


def _read_union(kinds: Sequence[Any], record: Record, name: str, value: object) -> object:
    """Return a value that has one of the types unchanged; else read it as the first that fits."""
    if value is None or type(value) in kinds:
        return value
    fitting = [kind for kind in kinds if is_dataclass(kind) == isinstance(value, Mapping)]
    return _reader((fitting or kinds)[0])(record, name, value)


def _read_choice(choices: Any, record: Record, name: str, value: object) -> Any:  # noqa: ANN401 - an enumeration
    text = record.made(_TEXT, name, value)
    named = issubclass(choices, StrEnum)
    known = {each.value if named else each.name: each for each in choices if each.name}
    if text not in known:
        raise record.error(f"has {name!r} {text!r}; it must be one of {', '.join(known)}")
    return known[text]


def _read_flags(choices: Any, record: Record, name: str, value: object) -> Any:  # noqa: ANN401 - the same
    flags = choices(0)
    for flag in _read_list(partial(_read_choice, choices), list, record, name, value):
        flags |= flag
    return flags


def _read_time(record: Record, name: str, value: object) -> datetime:
    try:
        return datetime.fromisoformat(record.made(_TEXT, name, value))
    except ValueError:
        raise record.error(f"has {name!r} that is no time, as 2026-01-31T12:00:00+00:00") from None


def _kind(value: object) -> str:
    """Return the JSON name of a value's type, or its Python type for rows of a library."""
    if _is(value, int, float):
        is_nan = value != value  # noqa: PLR0124 - NaN alone differs from itself
        return "NaN" if is_nan else "a number" if _NUMBER.fits(value) else "too large for one"
    names: dict[type, str] = {bool: "true or false", str: "text", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), f"a {type(value).__name__}")


_DEVICES = (("/", "dev"), ("/", "proc"))
"""Folders of files that refer to open streams, such as standard output."""


@contextmanager
def replacing(path: Path | str, mode: int = 0o666) -> Iterator[Path]:
    """Yield a path to write to, which then replaces a file atomically. Raises OSError.

    An existing file keeps its permissions, and its owner if root writes; a new one gets `mode`,
    less the umask. After an error the file is unchanged. Pipes and devices are written to directly.
    """
    given, target = Path(path), Path(os.path.realpath(path))
    there = given.exists()
    if there and (not given.is_file() or given.parts[:2] in _DEVICES):
        yield given
        return
    if there:
        os.close(os.open(target, os.O_WRONLY))  # raises if the file may not be written
    beside = target.with_name(f".judged-{secrets.token_hex(8)}.new")
    try:
        beside.touch(mode, exist_ok=False)
        if there:
            was = target.stat()
            with suppress(AttributeError, OSError):  # on Windows; and only root may give files away
                os.chown(beside, was.st_uid, was.st_gid)
            beside.chmod(was.st_mode & 0o777)
        yield beside
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        try:
            beside.replace(target)
        except OSError:  # for example a mounted file, which can be written but not replaced
            shutil.copyfile(beside, target)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def replacing_text(
    path: Path | str, newline: str | None = None, mode: int = 0o666
) -> Iterator[TextIO]:
    """Open a UTF-8 text file that then replaces a file atomically. Raises OSError."""
    with (
        replacing(path, mode) as beside,
        beside.open("w", encoding="utf-8", newline=newline) as file,
    ):
        yield file


def replace_text(path: Path | str, text: str, mode: int = 0o666) -> None:
    """Replace the content of a file by a text; a new file gets `mode`. Raises OSError."""
    with replacing_text(path, mode=mode) as file:
        file.write(text)
