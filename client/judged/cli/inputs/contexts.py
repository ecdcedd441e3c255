"""Lines of contexts: what `judged judge` and `judged calibrate` read, and how verdicts get back.

A line is one item: a query, a retrieved text, and one expected text or several, which are
alternatives. Each alternative is a context of its own; the item's verdict is the best of theirs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from judged import Context, QueryGroup, Status, Verdicts
from judged._batching.chunks import fold
from judged.cli.output.writer import STDOUT
from judged.cli.problems import Place
from judged.cli.replay import Name
from judged.evaluation.datasets.files import (
    FileError,
    KnownFields,
    Record,
    number_lines,
    parse_json,
    read_lines,
)
from judged.traces import MissingJudgements

FIELDS = "{query, expected_text, retrieved_text}"
_FIELDS = ("id", "query", "expected_text", "expected_alternatives", "retrieved_text")
_GROUP_PATH = re.compile(r"groups\[(\d+)\]\.(query|expected|retrieved)(?:\[(\d+)\])?")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the input: its number, all its fields, a context for each expected text."""

    number: int
    fields: dict[str, Any]
    contexts: Sequence[Context]


def records(path: str, *more: str) -> Iterator[tuple[int, Record]]:
    """Yield the lines of a file, or of standard input for "-", as objects. Raises FileError.

    Fields with nearly the name of one that is read, those of `more` included, are warned of.
    """
    name = "standard input" if path == STDOUT else path
    raw_lines = number_lines(sys.stdin.buffer) if path == STDOUT else read_lines(path)
    known = KnownFields(*_FIELDS, *more)
    for number, raw in raw_lines:
        record = Record(parse_json(raw, name, number), name, number, "")
        known.check(record)
        yield number, record


def read_contexts(path: str) -> list[Line]:
    """Return the lines of a file, or of standard input for "-". Raises FileError."""
    lines: list[Line] = []
    line_of: dict[str, int] = {}
    for number, record in records(path):
        item_id = record.optional_identifier("id")
        if item_id is not None and line_of.setdefault(item_id, number) != number:
            raise record.error(
                f"has the id {item_id!r} of line {line_of[item_id]}; give each line its own"
            )
        lines.append(Line(number, dict(record.fields), contexts_of(record)))
    if not lines:
        name = "standard input" if path == STDOUT else path
        raise FileError(name, None, f"holds nothing to judge; write lines of {FIELDS}")
    return lines


def contexts_of(record: Record) -> list[Context]:
    """Return a context for each expected text of a line, none twice. Raises FileError.

    These are `expected_text` and those of `expected_alternatives` that hold something; one of the
    two fields must be there.
    """
    query = record.text("query")
    alternatives = [text for text in record.texts("expected_alternatives") if text.strip()]
    if not alternatives or record.get("expected_text") is not None:
        alternatives.insert(0, record.text("expected_text"))
    retrieved = record.text("retrieved_text")
    return [Context(query, expected, retrieved) for expected in dict.fromkeys(alternatives)]


def fold_lines(lines: Iterable[Line]) -> list[QueryGroup]:
    """Return the groups that hold the contexts of all lines, in their order."""
    return fold(context for line in lines for context in line.contexts)


def of_lines(lines: Sequence[Line], verdicts: Verdicts) -> Verdicts:
    """Return one verdict a line, the best of its contexts'.

    That is the highest score among those that are relevant; else one that is missing, since it
    might have been relevant; else the highest score.
    """
    if len(verdicts) == len(lines):
        return verdicts
    picks, start = [], 0
    for line in lines:
        end = start + len(line.contexts)
        picks.append(_best(verdicts, range(start, end)))
        start = end
    return replace(
        verdicts,
        relevant=[verdicts.relevant[pick] for pick in picks],
        score=[verdicts.score[pick] for pick in picks],
        status=[verdicts.status[pick] for pick in picks],
        source=[verdicts.source[pick] for pick in picks],
        flags=[verdicts.flags[pick] for pick in picks],
        offsets=list(range(len(picks) + 1)),
        errors={n: verdicts.errors[p] for n, p in enumerate(picks) if p in verdicts.errors},
        details={n: verdicts.details[p] for n, p in enumerate(picks) if p in verdicts.details},
        agreement=[verdicts.agreement[pick] for pick in picks] if verdicts.agreement else (),
    )


def _best(verdicts: Verdicts, contexts: range) -> int:
    judged = [index for index in contexts if verdicts.status[index] == Status.OK]
    relevant = [index for index in judged if verdicts.relevant[index]]
    if not relevant and len(judged) < len(contexts):
        return next(index for index in contexts if verdicts.status[index] != Status.OK)
    return max(relevant or judged, key=lambda index: verdicts.score[index])


def missing_line(name: str, lines: Sequence[Line], groups: Sequence[QueryGroup]) -> Name:
    """Return what turns a context without a judgement into the line that it came from."""
    known_as = places(name, lines, groups)

    def line_of(missing: MissingJudgements) -> str:
        first = missing.first
        # From its group's first expected text on, contexts are counted as lines are.
        offset = first.retrieved * groups[first.group].n_expected + first.expected
        place = known_as(f"groups[{first.group}].expected[{offset}]")
        return (place or "").rpartition(":")[0]

    return line_of


def places(name: str, lines: Sequence[Line], groups: Sequence[QueryGroup]) -> Place:
    """Return what turns the path of a field into the line of the file that it came from."""
    starts = [0]
    for group in groups:
        starts.append(starts[-1] + group.n_expected * group.n_retrieved)
    line_of = [line for line in lines for _ in line.contexts]

    def place(field: str) -> str | None:
        match = _GROUP_PATH.match(field)
        if match is None:
            return None
        group, side, index = int(match[1]), match[2], int(match[3] or 0)
        offset = index * groups[group].n_expected if side == "retrieved" else index
        text = side if side == "query" else f"{side}_text"
        return f"{name}:{line_of[starts[group] + offset].number}: {text!r}"

    return place
