"""A trace: items with their judgements, in a file of JSON lines.

Where judgements come from is in `recording`, what is made of them in `replay`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from judged._files import (
    FileError,
    Record,
    json_line,
    parse_json,
    read_lines,
    writing,
)
from judged._writing import replacing_text
from judged.traces.items import JUDGEMENTS, Hashes, Item, Key, read_item, write_item
from judged.traces.judgement import Judgement, read_judgement, write_judgement
from judged.values import Status

FORMAT = "judged-trace"
VERSION = 1

_NEXT = "mend it, or delete the line and have its item judged again with --trace"


@dataclass(slots=True)
class TracedItem:
    """An item with its judgements by name."""

    item: Item
    judgements: dict[str, Judgement] = field(default_factory=dict)


@dataclass(slots=True)
class Trace:
    """Items by key, each with its judgements. `warnings` are remarks on the file it was read of."""

    name: str = "the trace"
    items: dict[Key, TracedItem] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    hashes: Hashes = field(default_factory=Hashes)

    @classmethod
    def read(cls, path: Path | str) -> Trace:
        """Return the trace of a file. Raises FileError, which names file, line and key.

        A last line that was cut off while it was written is left out, with a warning.
        """
        trace = cls(str(path))
        lines = _whole_lines(path, trace)
        first = next(lines, None)
        if first is None:
            raise FileError(trace.name, None, "is empty; a trace begins with a header")
        _check_header(trace.name, *first)
        line_of: dict[Key, int] = {}
        for number, raw in lines:
            try:
                found = trace._read_line(number, raw)
            except FileError as error:
                raise FileError(trace.name, number, f"{error.problem}; {_NEXT}") from None
            key = found.item.key
            if key in line_of:
                problem = f"has the item of line {line_of[key]} again; delete one of the lines"
                raise FileError(trace.name, number, problem)
            line_of[key] = number
            trace.items[key] = found
        return trace

    def _read_line(self, number: int, raw: bytes) -> TracedItem:
        line = Record.parse(raw, self.name, number)
        if line.get("format") is not None:
            raise line.error("is a second header; put the files together by judging into one")
        item = read_item(line, self.hashes)
        judgements = line.record(JUDGEMENTS)
        if judgements is None:
            raise line.error(f"has no {JUDGEMENTS!r}")
        return TracedItem(
            item,
            {
                name: read_judgement(
                    Record(value, self.name, number, f"{JUDGEMENTS}[{name!r}]"), name
                )
                for name, value in judgements.fields.items()
            },
        )

    def __len__(self) -> int:
        return len(self.items)

    def names(self) -> list[str]:
        """Return the names that judgements have, in the order of their first use."""
        return list(dict.fromkeys(name for item in self.items.values() for name in item.judgements))

    def context_names(self) -> list[str]:
        """Return the names of judgements of contexts; those of scores are not among them."""
        return [name for name in self.names() if not name.startswith("answers/")]

    def put(self, item: Item, judgement: Judgement) -> None:
        """Add a judgement, in place of an earlier one of its name.

        A failure does not take the place of what the same judge said before.
        """
        found = self.items.get(item.key)
        if found is None:
            found = self.items[item.key] = TracedItem(item)
        elif not found.item.whole and item.whole:
            found.item = item
        earlier = found.judgements.get(judgement.name)
        if (
            earlier is not None
            and judgement.status is Status.ERROR
            and earlier.judge.scoring_key == judgement.judge.scoring_key
        ):
            return
        found.judgements[judgement.name] = judgement

    def get(self, key: Key, name: str) -> Judgement | None:
        """Return the judgement that an item has under a name; None without one."""
        found = self.items.get(key)
        return None if found is None else found.judgements.get(name)

    def write(self, path: Path | str, *, hashed: bool = False) -> None:
        """Write the trace to a file, whole or not at all; `hashed` keeps no texts.

        Raises FileError when it can't be written.
        """
        with writing(path), replacing_text(path) as file:
            file.writelines(self._lines(hashed=hashed))

    def _lines(self, *, hashed: bool) -> Iterator[str]:
        header = {"format": FORMAT, "version": VERSION, "created_by": f"judged {_version()}"}
        yield json_line(header)
        for found in self.items.values():
            judgements = {name: write_judgement(j) for name, j in found.judgements.items()}
            yield json_line({**write_item(found.item, hashed=hashed), JUDGEMENTS: judgements})


def _version() -> str:
    try:
        return version("judged")
    except PackageNotFoundError:  # run from a folder of sources
        return "unknown"


def _whole_lines(path: Path | str, trace: Trace) -> Iterator[tuple[int, bytes]]:
    """Yield (line number, line) without a last one that was cut off, of which a warning tells."""
    for number, raw in read_lines(path):
        if number > 1 and not raw.endswith(b"\n") and not _is_json(raw, trace.name, number):
            trace.warnings.append(
                f"{trace.name}:{number}: the last line was cut off; what it held is left out"
            )
            return
        yield number, raw


def _is_json(raw: bytes, name: str, number: int) -> bool:
    try:
        parse_json(raw, name, number)
    except FileError:
        return False
    return True


def _check_header(name: str, number: int, raw: bytes) -> None:
    header = Record.parse(raw, name, number)
    if header.get("format") != FORMAT:
        raise header.error(
            f"is no header of a trace, which has 'format' {FORMAT!r}; traces are written by "
            "judged judge, evaluate and score with --trace"
        )
    found = header.position("version")
    if found != VERSION:
        raise header.error(
            f"has 'version' {found}, and this judged reads version {VERSION}; use the judged that "
            f"wrote it ({header.optional_text('created_by') or 'unknown'}), or judge anew"
        )
    header.refuse_unknown({"format", "version", "created_by"})
