"""Files of answers: a line an answer, {item_id, query, answer, references, contexts}."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from judged import AnswerItem
from judged.cli.output.writer import STDOUT
from judged.cli.problems import Place
from judged.evaluation.datasets.files import (
    FileError,
    KnownFields,
    Record,
    number_lines,
    parse_json,
    read_lines,
)

_FIELDS = ("item_id", "id", "query", "answer", "references", "contexts", "negative_references")
_ITEM_PATH = re.compile(r"items\[(\d+)\]\.(.+)")


@dataclass(frozen=True, slots=True)
class AnswerFile:
    """The answers of a file, and the number of the line of each."""

    name: str
    items: Sequence[AnswerItem]
    line_numbers: Sequence[int]

    def place(self) -> Place:
        """Return what turns the path of a field into the line of the file that it came from."""

        def place(field: str) -> str | None:
            match = _ITEM_PATH.match(field)
            if match is None:
                return None
            return f"{self.name}:{self.line_numbers[int(match[1])]}: {match[2]!r}"

        return place


def read_answers(path: str) -> AnswerFile:
    """Return the answers of a file, or of standard input for "-". Raises FileError.

    An answer without an id goes by the number of its line.
    """
    name = "standard input" if path == STDOUT else path
    raw_lines = number_lines(sys.stdin.buffer) if path == STDOUT else read_lines(path)
    items: list[AnswerItem] = []
    line_of: dict[str, int] = {}
    known = KnownFields(*_FIELDS)
    for number, raw in raw_lines:
        line = Record(parse_json(raw, name, number), name, number, "")
        known.check(line)
        item_id = line.optional_identifier("item_id", "id") or str(number)
        if item_id in line_of:
            raise line.error(
                f"item {item_id!r} was on line {line_of[item_id]} already; a line without "
                "'item_id' goes by its number, so give every line an id of its own"
            )
        if line.get("negative_references") is not None:
            raise line.error(
                "has 'negative_references', which no metric of answers reads; "
                "leave it out, or check answers against them with judged judge"
            )
        line_of[item_id] = number
        items.append(
            AnswerItem(
                item_id,
                line.text("query"),
                line.text("answer"),
                line.texts("references"),
                line.texts("contexts"),
            )
        )
    if not items:
        raise FileError(name, None, "holds nothing to score; write lines of {query, answer}")
    return AnswerFile(name, items, list(line_of.values()))
