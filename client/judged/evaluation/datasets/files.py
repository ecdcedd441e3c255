"""Reads lines and JSON from files, and says where a file is wrong."""

from __future__ import annotations

import gzip
import json
import math
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, NoReturn

_GZIP_MAGIC = b"\x1f\x8b"
_NEARLY = 0.8
"""How alike two names are, by difflib, when one may be meant by the other."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_ZIP_MARK = b"PK"
_JOINED = "begins with a byte order mark: two files were joined here; take the mark out"
# Fields with a meaning of their own, which are no misspelling of another one.
SYSTEM_MODEL = "system_model"
"""The field of a line that names the language model which made its texts."""
_KNOWN = frozenset({"query", "query_id", "query_text", "expected_text", "expected_alternatives"})
_KNOWN |= {"retrieved_text", "relevant", "score", "status", "item_id", "response", "reference"}
_OFTEN = {
    "query_text": ("question", "user_input", "prompt", "input"),
    "user_input": ("question", "query_text", "query"),
}
"""What other tools call a field."""
_FLAT = (str, int, float)
_LABELS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


class FileError(Exception):
    """A file can't be read or breaks its format.

    `line` counts from 1; None when the file as a whole is meant.
    """

    __module__ = "judged.evaluation"

    def __init__(self, name: str, line: int | None, problem: str) -> None:
        place = name if line is None else f"{name}:{line}"
        super().__init__(f"{place}: {problem}")
        self.name = name
        self.line = line
        self.problem = problem


class FileWarning(UserWarning):
    """Something in a file is not as it should be, and is read all the same."""


class UnknownField(FileWarning):
    """A field of a file is passed over, and its name is nearly that of one that is read."""


class KnownFields:
    """The fields that a format reads; others are the user's own, unless their names are so near."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._seen = set(names)

    def check(self, record: Record) -> None:
        """Warn (UnknownField) of fields with nearly a known name, once for each name."""
        for name in record.fields:
            if name in self._seen:
                continue
            self._seen.add(name)
            near = get_close_matches(name, self._names, n=1, cutoff=_NEARLY)
            if near:
                said = record.error(f"has {name!r}, which nothing reads; did you mean {near[0]!r}?")
                warnings.warn(UnknownField(str(said)), stacklevel=3)


@contextmanager
def open_file(path: Path | str) -> Iterator[BinaryIO | gzip.GzipFile]:
    """Open a file, gzipped or not, for reading. Raises FileError, also for faults while reading."""
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            packed = file.peek(2)[:2] == _GZIP_MAGIC
            yield gzip.GzipFile(fileobj=file) if packed else file
    except FileNotFoundError:
        raise FileError(name, None, "there is no such file") from None
    except IsADirectoryError:
        raise FileError(name, None, "is a folder; name a file in it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(name, None, f"is not a whole gzip file: {error}") from None
    except OSError as error:
        raise FileError(name, None, f"can't be read: {error.strerror or error}") from None


def read_bytes(path: Path | str) -> bytes:
    """Return all that a file holds. Raises FileError."""
    with open_file(path) as file:
        return file.read().removeprefix(_BYTE_ORDER_MARK)


def read_lines(path: Path | str) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line) of every line that is not blank. Raises FileError."""
    with open_file(path) as file:
        yield from number_lines(file, str(path))


def number_lines(file: BinaryIO | gzip.GzipFile, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line) of every line of the open file `name` that is not blank.

    Raises FileError.
    """
    for number, line in enumerate(file, 1):
        if number > 1 and line.startswith(_BYTE_ORDER_MARK):
            raise FileError(name, number, _JOINED)
        text = line.removeprefix(_BYTE_ORDER_MARK)
        if text.strip():
            yield number, text


def read_records(path: Path | str) -> Iterator[tuple[int, Record]]:
    """Yield (line number, JSON object) of every line that is not blank. Raises FileError."""
    return number_records(read_lines(path), str(path))


def number_records(lines: Iterable[tuple[int, bytes]], name: str) -> Iterator[tuple[int, Record]]:
    """Yield (line number, JSON object) of numbered lines of the file `name`. Raises FileError."""
    for number, raw in lines:
        yield number, Record(parse_json(raw, name, number), name, number, "")


def read_object(path: Path | str) -> Record:
    """Return the one JSON object that a file holds. Raises FileError."""
    name = str(path)
    return Record(parse_json(read_bytes(path), name, None), name, None, "")


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Raise FileError for a file that can't be written."""
    try:
        yield
    except OSError as error:
        problem = f"can't be written: {error.strerror or error}"
        raise FileError(str(path), None, problem) from None


def parse_json(raw: bytes, name: str, line: int | None) -> object:
    """Return the value of a JSON text.

    Raises FileError, also for what Python would let pass: NaN, infinities and numbers too large
    for one, a field that is there twice, and escapes of half a character, which no UTF-8 can carry.
    """
    text = decode(raw, name, line)
    try:
        value: object = DECODER.decode(text)
        if rb"\u" in raw:
            refuse_half_characters(value)
    except json.JSONDecodeError as error:
        inner = f"line {error.lineno} " if line is None else ""
        problem = error.msg.removesuffix(" at")
        hint = _notation(text, error.pos)
        hint = hint or _other_format(text, whole=line is None, several=error.msg == "Extra data")
        raise FileError(
            name, line, f"is not JSON: {problem} at {inner}column {error.colno}{hint}"
        ) from None
    except NotAllowed as error:
        raise FileError(name, line, str(error)) from None
    except RecursionError:
        raise FileError(name, line, "is nested too deeply; write flatter objects") from None
    except ValueError:
        problem = "holds a whole number with too many digits; write it as text, in quotes"
        raise FileError(name, line, problem) from None
    return value


class NotAllowed(Exception):
    """A JSON text holds what Python reads and we don't."""


_LARGE = {float, list}
"""What may be, or hold, a number that is too large."""


def _read_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise NotAllowed(f"has {twice!r} twice; keep one of them")
    for name, value in pairs:
        if type(value) in _LARGE and too_large(value):
            raise NotAllowed(f"has {name!r} that is too large for a number")
    return fields


def too_large(value: object) -> bool:
    """Say whether a value is, or a list holds, a number that JSON's writers can't write."""
    if isinstance(value, list):
        return any(map(too_large, value))
    return isinstance(value, float) and math.isinf(value)


def _notation(text: str, at: int) -> str:
    """Return a hint at what stands where JSON ends to be JSON."""
    rest = text[at:]
    if rest[:1] in ("]", "}") and text[:at].rstrip().endswith(","):
        return f"; take out the comma before the {rest[0]}"
    if rest.startswith(("'", "True", "False", "None")):
        return "; this is Python's notation, as str() writes it: write JSON, as json.dumps does"
    return ""


def _other_format(text: str, *, whole: bool, several: bool) -> str:
    """Return a hint at what a line, or a whole file, that is not JSON may be instead."""
    if "\0" in text:
        return "; it holds NUL characters, as UTF-16 does: save it as UTF-8"
    start, read = text.strip().partition("\n")[0] if whole else text.strip(), "JSON lines are"
    if whole:
        read = "one JSON value is"
        if several and start.startswith("{") and start.endswith("}"):
            return "; this looks like JSON lines, and one JSON value is read here"
    if start[:1] in ("{", "["):
        parts = start in ("{", "[") or start.endswith((",", "{", "["))
        return "; write each object on one line, as `jq -c .` does" if parts and not whole else ""
    if len(start.split()) in (4, 6) and "," not in start:
        return f"; this looks like TREC, and {read} read here"
    if any(divider in start for divider in ",;\t"):
        return f"; this looks like CSV, and {read} read here"
    return ""


def decode(raw: bytes, name: str, line: int | None) -> str:
    """Return the text of UTF-8 bytes. Raises FileError."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        if raw[:2] in _UTF_16_MARKS:
            raise FileError(name, line, "is UTF-16; save it as UTF-8") from None
        if raw[:2] == _ZIP_MARK:
            problem = "is a zip file, as sheets of Excel are; save a sheet as CSV in UTF-8"
            raise FileError(name, line, problem) from None
        problem = f"is not UTF-8: {error.reason} at byte {error.start}; save it as UTF-8"
        raise FileError(name, line, problem) from None
    if (joined := text.find("\n\ufeff")) >= 0:
        raise FileError(name, text.count("\n", 0, joined) + 2, _JOINED)
    return text


def _refuse_constant(name: str) -> NoReturn:
    raise NotAllowed(f"is not JSON: {name} is no JSON number")


DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_read_object)
"""Decodes JSON as `parse_json` does, but for half characters. Raises NotAllowed too."""


def refuse_half_characters(value: object) -> None:
    """Raise NotAllowed for a value with texts that UTF-8 can't carry."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        problem = "holds half of a surrogate pair (\\ud800 to \\udfff), which UTF-8 can't carry"
        raise NotAllowed(problem) from None


class Record:
    """One JSON object of a file, whose fields are read with checks. `what` names it in errors."""

    def __init__(self, value: object, name: str, line: int | None, what: str) -> None:
        self._name = name
        self._line = line
        self._what = what
        if not isinstance(value, Mapping):
            raise self.error("must be an object, with braces")
        self.fields: Mapping[str, object] = value

    @property
    def place(self) -> str:
        """Where the object stands, for people: its file and line, or its path."""
        line = "" if self._line is None else f":{self._line}"
        return f"{self._name}{line}" if not self._what else f"{self._name}{line}: {self._what}"

    def error(self, problem: str) -> FileError:
        """Return the error that says what is wrong with this object."""
        return FileError(self._name, self._line, f"{self._what} {problem}".lstrip())

    def missing(self, names: Sequence[str]) -> FileError:
        """Return the error that no field has one of these names, with what may be meant by it."""
        for name in names:
            if name in self.fields and self.fields[name] is None:
                return self.error(f"has no {name!r}: it is null")
        others = {name.lower(): name for name in self.fields if name not in _KNOWN.union(names)}
        near = [name for name in _OFTEN.get(names[0], ()) if name in others]
        near = near or get_close_matches(names[0], others, n=1)
        hint = f"; is it what is called {others[near[0]]!r} here?" if near else ""
        return self.error(f"has no {' or '.join(map(repr, names))}{hint}")

    def get(self, *names: str) -> object:
        """Return the first of the fields that is there and not null, else None."""
        for name in names:
            if (value := self.fields.get(name)) is not None:
                return value
        return None

    def text(self, *names: str) -> str:
        """Return a field that must be there and be text."""
        value = self.get(*names)
        if value is None:
            raise self.missing(names)
        if not isinstance(value, str):
            raise self.error(f"has {names[0]!r} that is not text but {_kind(value)}")
        return value

    def optional_label(self, name: str) -> bool | None:
        """Return what a person said, None where the field is absent or null. Raises FileError."""
        value = self.get(name)
        label = as_label(value)
        if value is not None and label is None:
            rule = "neither true, false nor null; 1 and 0 are read as true and false"
            raise self.error(f"has {name!r} that is {rule}")
        return label

    def optional_text(self, name: str) -> str | None:
        """Return a field that must be text when it is there."""
        return None if self.get(name) is None else self.text(name)

    def optional_identifier(self, *names: str) -> str | None:
        """Return an id that is text or a whole number, as text; None without one."""
        value = self.get(*names)
        return None if value is None else self._identifier(value, names[0])

    def identifier(self, *names: str) -> str:
        """Return an id that must be there and not be empty."""
        value = self.optional_identifier(*names)
        if not value:
            raise self.missing(names)
        return value

    def identifiers(self, *names: str) -> list[str]:
        """Return a list of ids; an empty one when it is not there."""
        return [self._identifier(value, names[0]) for value in self.items(*names)]

    def texts(self, *names: str) -> list[str]:
        """Return a list of texts; an empty one when it is not there."""
        values = self.items(*names)
        for value in values:
            if not isinstance(value, str):
                raise self.error(f"has {names[0]!r} that holds {_kind(value)} instead of text")
        return [str(value) for value in values]

    def items(self, *names: str) -> Sequence[object]:
        """Return a list; an empty one when it is not there."""
        values = self.get(*names)
        if values is None:
            return ()
        if not isinstance(values, list):
            raise self.error(f"has {names[0]!r} that is not a list but {_kind(values)}")
        return values

    def record(self, name: str) -> Record | None:
        """Return an object; None without one."""
        value = self.get(name)
        return None if value is None else self._inner(value, name)

    def records(self, name: str) -> list[Record]:
        """Return a list of objects; an empty one when it is not there."""
        return [
            self._inner(value, f"{name}[{index}]") for index, value in enumerate(self.items(name))
        ]

    def _inner(self, value: object, name: str) -> Record:
        return Record(value, self._name, self._line, f"{self._what}.{name}".lstrip("."))

    def position(self, *names: str) -> int:
        """Return a whole number from 0 to 2^64 - 1, which must be there."""
        value = self.get(*names)
        if value is None:
            raise self.error(f"has no {names[0]!r}")
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**64:
            raise self.error(f"has {names[0]!r} that is not a whole number from 0 to 2^64 - 1")
        return value

    def labels(self, name: str) -> dict[str, str]:
        """Return an object of single values as texts; lists, objects and null are passed over."""
        inner = self.record(name)
        fields = {} if inner is None else inner.fields
        return {key: _label(value) for key, value in fields.items() if isinstance(value, _FLAT)}

    def unlabelled(self, name: str) -> dict[str, str]:
        """Return by key what of an object `labels` passes over, null aside, as texts for people."""
        inner = self.record(name)
        return {
            key: str(
                self.error(
                    f"has {_kind(value)} under {key!r} in its {name}, which is left out, as are "
                    f"others of that name: {name} hold single values; write it as one text"
                )
            )
            for key, value in ({} if inner is None else inner.fields).items()
            if value is not None and not isinstance(value, _FLAT)
        }

    def optional_number(self, name: str) -> float | None:
        """Return a number; None without one."""
        value = self.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"has {name!r} that is not a number but {_kind(value)}")
        with suppress(OverflowError):
            if not math.isinf(number := float(value)):
                return number
        raise self.error(f"has {name!r} that is too large for a number")

    def _identifier(self, value: object, name: str) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self.error(f"has {name!r} that is neither text nor a whole number")
        return str(value)


def as_label(value: object) -> bool | None:
    """Return true or false as files have them: 1, 0, and texts in any case too; None for others."""
    return _LABELS.get(str(value).strip().lower())


def _label(value: object) -> str:
    """Return a single value as JSON writes it, texts without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def _kind(value: object) -> str:
    """Return what JSON calls a value, or the type that a row of a library has."""
    names: dict[type, str] = {bool: "true or false", int: "a number", float: "a number"}
    names |= {str: "text", list: "a list", dict: "an object", type(None): "null"}
    return names.get(type(value), f"a {type(value).__name__}")
