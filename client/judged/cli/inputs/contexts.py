"""Lines of contexts: what `judged judge` and `judged calibrate` read, and how verdicts get back.

A line is one item: a query, a retrieved text, and one expected text or several, which are
alternatives. Each alternative is a context of its own; the item's verdict is the best of theirs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any

from judged import Client, Context, Judge, QueryGroup, Status, Verdicts
from judged._batching.chunks import ASKING_KINDS
from judged._views import of_all, word
from judged.cli.field_path import Place, Steps
from judged.cli.inputs.lines import input_records, name_of
from judged.cli.output.writer import Output
from judged.cli.problems import Problem
from judged.cli.replay import Name
from judged.evaluation.datasets.files import (
    SYSTEM_MODEL,
    FileError,
    Record,
    UnknownField,
)
from judged.evaluation.datasets.id_index import IdIndex
from judged.traces import MissingJudgements
from judged.values.verdicts import pick_verdicts

BLOCK_LINES = 1 << 13
"""Lines that are held at once where verdicts go to a file."""
FIELDS = ("id", "query", "expected_text", "expected_alternatives", "retrieved_text", SYSTEM_MODEL)
_LINE = "{query, expected_text, retrieved_text}"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the input: its number, all its fields, a context for each expected text.

    Where it has no expected text, that of its context is blank, and `lacks` says so.
    """

    number: int
    fields: dict[str, Any]
    contexts: Sequence[Context]
    lacks: FileError | None = None


@dataclass(slots=True)
class Counted:
    """What a file holds: lines, those of them that expect only a blank text, and contexts.

    `lacks` says of the first line without an expected text that it has none; `system_models` are
    those that lines say made their texts.
    """

    lines: int = 0
    expecting_nothing: int = 0
    contexts: int = 0
    lacks: FileError | None = None
    system_models: dict[str, None] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        """Count one line more."""
        self.lines += 1
        self.expecting_nothing += not any(c.expected_text.strip() for c in line.contexts)
        self.contexts += len(line.contexts)
        self.lacks = self.lacks or line.lacks
        if model := line.fields.get(SYSTEM_MODEL):
            self.system_models[model] = None


def count_lines(lines: Iterable[Line]) -> Counted:
    """Return what lines hold."""
    counted = Counted()
    for line in lines:
        counted.add(line)
    return counted


def read_contexts(path: str) -> Iterator[Line]:
    """Yield the lines of a file, or of standard input for "-". Raises FileError.

    Ids are held outside memory, so that it does not grow with the file.
    """
    ids = IdIndex()
    line: Line | None = None
    for line, item_id, record in _each(path):
        if item_id is not None and not ids.add(item_id, line.number):
            first, _ = ids.find(item_id) or (0, 0)
            raise record.error(f"has the id {item_id!r} of line {first}; give each line its own")
        yield line
    if line is None:
        raise FileError(name_of(path), None, f"holds nothing to judge; write lines of {_LINE}")


def check_expectations(
    out: Output, path: str, judge: Judge, counted: Counted, client: Client
) -> None:
    """Warn of lines whose expected text is blank. Raises Problem where all are.

    Not where language models judge, whose rubrics need not show what was expected. Raises FileError
    for a line without one, where the judge needs it.
    """
    if counted.lacks is not None:
        alone = [QueryGroup(retrieved=["text"])]
        if not client.estimate(alone, judge).contexts:  # of a judge that needs none there is one
            raise counted.lacks
    n = counted.expecting_nothing
    if not n or judge.kind in ASKING_KINDS:
        return
    name = name_of(path)
    if n == counted.lines:
        raise Problem(
            f"{name}: 'expected_text' is blank on every line, so there is nothing to hold "
            "'retrieved_text' against; write there what should be found"
        )
    out.warn(
        f"{of_all(n, counted.lines, 'line', 'lines')} of {name} {word(n, 'has', 'have')} a blank "
        "'expected_text', which only an empty text matches; write there what should be found"
    )


def blocks_of_contexts(path: str) -> Iterator[list[Line]]:
    """Yield the lines of a file that was checked, BLOCK_LINES at a time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownField)  # told when the file was checked
        lines = (line for line, _, _ in _each(path))
        while block := list(islice(lines, BLOCK_LINES)):
            yield block


def _each(path: str) -> Iterator[tuple[Line, str | None, Record]]:
    for number, record in input_records(path, *FIELDS):
        item_id = record.optional_identifier("id")
        record.optional_text(SYSTEM_MODEL)
        lacks = None
        if record.get("expected_text") is None and record.get("expected_alternatives") is None:
            lacks = record.missing(("expected_text",))
        contexts = contexts_of(record, [] if lacks is None else [""])
        yield Line(number, dict(record.fields), contexts, lacks), item_id, record


def contexts_of(record: Record, expected: Sequence[str] = ()) -> list[Context]:
    """Return a context for each expected text of a line, none twice. Raises FileError.

    These are those given, else `expected_text` and those of `expected_alternatives` that hold
    something; one of the two fields must then be there.
    """
    if record.get("query") is None and record.get("queries") is not None:
        raise record.error(f"is a data set, for judged evaluate; lines of {_LINE} are read here")
    query = record.text("query")
    alternatives = list(expected)
    if not alternatives:
        alternatives = [text for text in record.texts("expected_alternatives") if text.strip()]
        if not alternatives or record.get("expected_text") is not None:
            alternatives.insert(0, record.text("expected_text"))
    retrieved = record.text("retrieved_text")
    return [Context(query, text, retrieved) for text in dict.fromkeys(alternatives)]


def fold_lines(lines: Iterable[Line]) -> list[QueryGroup]:
    """Return the groups that hold the contexts of all lines, in their order.

    Consecutive lines of one query and the same expected texts share a group. A line is never cut,
    nor are its expected texts joined with those of another, for judges that see all of them.
    """
    groups: list[QueryGroup] = []
    for (query, expected), run in groupby(lines, key=_expectation):
        retrieved = [line.contexts[0].retrieved_text for line in run]
        groups.append(QueryGroup(query, list(expected), retrieved))
    return groups


def _expectation(line: Line) -> tuple[str, tuple[str, ...]]:
    return line.contexts[0].query, tuple(context.expected_text for context in line.contexts)


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
    return pick_verdicts(verdicts, picks, range(len(picks) + 1), verdicts.groups)


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
        place = known_as(("groups", first.group, "expected", offset))
        return (place or "").rpartition(":")[0]

    return line_of


def places(name: str, lines: Sequence[Line], groups: Sequence[QueryGroup]) -> Place:
    """Return what turns the path of a field into the line of the file that it came from."""
    starts = [0]
    for group in groups:
        starts.append(starts[-1] + group.n_expected * group.n_retrieved)
    line_of = [line for line in lines for _ in line.contexts]

    def place(path: Steps) -> str | None:
        match path:
            case ("groups", int(group), "query"):
                offset, text = 0, "query"
            case ("groups", int(group), "expected", int(offset)):
                text = "expected_text"
            case ("groups", int(group), "retrieved", int(retrieved)):
                offset, text = retrieved * groups[group].n_expected, "retrieved_text"
            case ("groups", int(group), ("expected" | "retrieved") as side):
                offset, text = 0, f"{side}_text"
            case _:
                return None
        return f"{name}:{line_of[starts[group] + offset].number}: {text!r}"

    return place
