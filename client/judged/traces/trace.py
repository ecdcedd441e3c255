"""A trace: items with their judgements, in a file of JSON lines.

Where judgements come from is in `recording`, what is made of them in `replay`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from judged._files import (
    FileError,
    Record,
    json_line,
    parse_json,
    read_lines,
    writing,
)
from judged._writing import replacing_text
from judged.traces.judgement import Judgement, check_sha256, read_judgement, write_judgement
from judged.values import Status

FORMAT = "judged-trace"
VERSION = 1
_JUDGEMENTS = "judgements"
_SUFFIX = "_sha256"
_NEXT = "mend it, or delete the line and have its item judged again with --trace"
_ONE = ("query", "expected_text", "retrieved_text", "answer")
_MANY = ("references", "contexts", "other_answers", "sources_used")
"""The fields of items that are a text, and lists of texts."""
_CONTEXT = ("query", "expected_text", "retrieved_text", "query_id")
_ANSWER = ("item_id", "query", "answer", *_MANY, "confidence")
_RARE = ("query_id", "other_answers", "sources_used", "confidence")
"""Written only where there is some, as most items have none."""

Key = tuple[object, ...]
"""What finds an item again: its id where that counts, and the hashes of its texts."""


class Hashes(dict[str, str]):
    """The SHA-256 of texts in hex, each made once."""

    def __missing__(self, text: str) -> str:
        made = self[text] = hashlib.sha256(text.encode()).hexdigest()
        return made


@dataclass(slots=True)
class Item:
    """A context or an answer, as a line of the file has it, with its judgements by name.

    A text of which only the hash is kept has `_sha256` behind the name of its field.
    """

    fields: Mapping[str, Any]
    key: Key
    judgements: dict[str, Judgement] = field(default_factory=dict)

    @classmethod
    def of(cls, fields: Mapping[str, Any], hashes: Hashes) -> Item:
        """Return an item of these fields; the id of a context's query is no part of its key."""
        kept = {n: v for n, v in fields.items() if n not in _RARE or v not in ("", [], (), None)}
        hashed = _hashed(kept, hashes)
        texts = [hashed.get(name + _SUFFIX, "") for name in (*_ONE, *_MANY)]
        key = (tuple(each) if isinstance(each, list) else each for each in texts)
        return cls(kept, (kept.get("item_id"), kept.get("confidence"), *key))

    @property
    def whole(self) -> bool:
        """Whether all texts are there."""
        return not any(name.endswith(_SUFFIX) for name in self.fields)


def _hashed(fields: Mapping[str, Any], hashes: Hashes) -> dict[str, Any]:
    """Return the fields of an item with hashes in place of texts."""
    written: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _ONE:
            written[name + _SUFFIX] = hashes[value]
        elif name in _MANY:
            written[name + _SUFFIX] = [hashes[text] for text in value]
        else:
            written[name] = value
    return written


@dataclass(slots=True)
class Trace:
    """Items by key, each with its judgements. `warnings` are remarks on the file it was read of."""

    name: str = "the trace"
    items: dict[Key, Item] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    hashes: Hashes = field(default_factory=Hashes)

    @classmethod
    def read(cls, path: Path | str) -> Trace:
        """Return the trace of a file. Raises FileError, which names file, line and key.

        A last line that was cut off while it was written is left out, with a warning.
        """
        trace = cls(str(path))
        line_of: dict[Key, int] = {}
        has_header = False
        for number, raw in read_lines(path):
            if number > 1 and not raw.endswith(b"\n") and not _is_json(raw):
                left_out = "the last line was cut off; what it held is left out"
                trace.warnings.append(f"{trace.name}:{number}: {left_out}")
                break
            if not has_header:
                _check_header(Record.parse(raw, trace.name, number))
                has_header = True
                continue
            try:
                item = trace._read_line(number, raw)
            except FileError as error:
                raise FileError(trace.name, number, f"{error.problem}; {_NEXT}") from None
            first = line_of.setdefault(item.key, number)
            if first != number:
                problem = f"has the item of line {first} again; delete one of the lines"
                raise FileError(trace.name, number, problem)
            trace.items[item.key] = item
        if not has_header:
            raise FileError(trace.name, None, "is empty; a trace begins with a header")
        return trace

    def _read_line(self, number: int, raw: bytes) -> Item:
        line = Record.parse(raw, self.name, number)
        if line.get("format") is not None:
            raise line.error("is a second header; put the files together by judging into one")
        item = Item.of(_read_fields(line), self.hashes)
        judgements = line.record(_JUDGEMENTS)
        if judgements is None:
            raise line.error(f"has no {_JUDGEMENTS!r}")
        for name, value in judgements.fields.items():
            record = Record(value, self.name, number, f"{_JUDGEMENTS}[{name!r}]")
            item.judgements[name] = read_judgement(record, name)
        return item

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
        found = self.items.setdefault(item.key, item)
        if not found.whole and item.whole:
            found.fields = item.fields
        earlier = found.judgements.get(judgement.name)
        if (
            earlier is None
            or judgement.status is not Status.ERROR
            or earlier.judge.scoring_key != judgement.judge.scoring_key
        ):
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
        try:
            writer = version("judged")
        except PackageNotFoundError:  # run from a folder of sources
            writer = "unknown"
        yield json_line({"format": FORMAT, "version": VERSION, "created_by": f"judged {writer}"})
        for item in self.items.values():
            fields = _hashed(item.fields, self.hashes) if hashed else item.fields
            judgements = {name: write_judgement(one) for name, one in item.judgements.items()}
            yield json_line({**fields, _JUDGEMENTS: judgements})


def _read_fields(record: Record) -> dict[str, Any]:
    """Return the fields of the item of a line. Raises FileError."""
    known = _ANSWER if record.get("item_id") is not None else _CONTEXT
    record.refuse_unknown({_JUDGEMENTS, *known, *(f"{name}{_SUFFIX}" for name in known)})
    found: dict[str, Any] = {}
    for name in known:
        if name not in (*_ONE, *_MANY):
            continue
        key = name + _SUFFIX if record.get(name + _SUFFIX) is not None else name
        if key != name and record.get(name) is not None:
            raise record.error(f"has {name!r} and its hash; one of them is enough")
        found[key] = record.text(key) if name in _ONE else record.texts(key)
        for hashed in () if key == name else (found[key] if name in _MANY else [found[key]]):
            check_sha256(record, key, hashed)
    if known is _CONTEXT:
        return {**found, "query_id": record.optional_identifier("query_id")}
    item_id, confidence = record.identifier("item_id"), record.optional_number("confidence")
    return {"item_id": item_id, **found, "confidence": confidence}


def _is_json(raw: bytes) -> bool:
    try:
        parse_json(raw, "", None)
    except FileError:
        return False
    return True


def _check_header(header: Record) -> None:
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
