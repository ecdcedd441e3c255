"""The lists of one JSON object, read item by item, for files that would not fit into memory."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from judged.evaluation.datasets.files import (
    DECODER,
    NotAllowed,
    open_file,
    refuse_half_characters,
    too_large,
)

_BLOCK = 1 << 20
"""Characters that are read at once."""
_SPACE = re.compile(r"[ \t\n\r]*")
_OF_NUMBERS = re.compile(r"[-+.\deE]*")


class ReadWhole(Exception):
    """What a file holds can't be read item by item: read it at once, which says what is wrong."""


def read_lists(path: Path | str, block: int = _BLOCK) -> Iterator[tuple[str, object]]:
    """Yield each item of the lists in the object of a file, with the name of its list.

    Fields that hold no list yield their name and None. Some `block` characters are held, or as many
    as the longest item has. Raises ReadWhole for what is not
    JSON, holds what `parse_json` refuses, or has items that are no objects; FileError for a file
    that can't be read.
    """
    with open_file(path) as file:
        decoded = io.TextIOWrapper(cast("io.BufferedReader", file), "utf-8-sig", newline="")
        text = _Text(decoded, block)
        try:
            yield from _read_object(text)
        except (ValueError, RecursionError, NotAllowed) as error:
            raise ReadWhole(str(error)) from None


def _read_object(text: _Text) -> Iterator[tuple[str, object]]:
    text.take("{")
    names: set[str] = set()
    while not names or text.follows(","):
        name = text.value()
        if not isinstance(name, str) or name in names:
            raise ReadWhole("a name is none, or comes twice")
        names.add(name)
        text.take(":")
        if text.peek() != "[":
            if too_large(text.value()):
                raise ReadWhole("a number is too large")
            yield name, None
            continue
        text.take("[")
        if text.follows("]"):
            continue
        yield name, _item(text)
        while text.follows(","):
            yield name, _item(text)
        text.take("]")
    text.take("}")
    if text.peek():
        raise ReadWhole("something is behind the object")


def _item(text: _Text) -> object:
    value: object = text.value()
    if not isinstance(value, dict):
        raise ReadWhole("an item is no object")
    return value


class _Text:
    """The text of a file, of which only what is not yet read is held."""

    def __init__(self, file: io.TextIOWrapper, block: int) -> None:
        self._file = file
        self._block = block
        self._held = ""
        self._at = 0
        self._all_held = False

    def peek(self) -> str:
        """Return the next character that is no white space; "" at the end."""
        while True:
            found = _SPACE.match(self._held, self._at)
            self._at = self._at if found is None else found.end()
            if self._at < len(self._held):
                return self._held[self._at]
            if self._all_held:
                return ""
            self._hold_more()

    def follows(self, character: str) -> bool:
        """Take a character if it is the next one; say whether it was."""
        if self.peek() != character:
            return False
        self._at += 1
        return True

    def take(self, character: str) -> None:
        """Take a character. Raises ReadWhole where another one is next."""
        if not self.follows(character):
            raise ReadWhole(f"{character} is missing")

    def value(self) -> Any:  # noqa: ANN401 - any JSON value
        """Take a value. Raises ValueError, RecursionError and NotAllowed."""
        self.peek()
        while True:
            try:
                value, end = DECODER.raw_decode(self._held, self._at)
            except json.JSONDecodeError:
                if self._all_held:
                    raise
            else:
                # A number at the end of what is held may go on behind it.
                if self._all_held or not _OF_NUMBERS.fullmatch(self._held, end):
                    if "\\u" in self._held[self._at : end]:
                        refuse_half_characters(value)
                    self._at = end
                    return value
            self._hold_more()

    def _hold_more(self) -> None:
        left = self._held[self._at :]
        more = self._file.read(max(self._block, len(left)))
        self._held, self._at, self._all_held = left + more, 0, not more
