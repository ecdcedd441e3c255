"""What a trace has judgements of: contexts, and answers. Texts may be kept as hashes only."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

from judged._files import Record
from judged.traces.judgement import check_sha256

Key = tuple[str, ...]
"""What finds an item again: its kind, its id where that counts, the hashes of its texts."""

_SUFFIX = "_sha256"
JUDGEMENTS = "judgements"


class Hashes(dict[str, str]):
    """The SHA-256 of texts in hex, each made once."""

    def __missing__(self, text: str) -> str:
        made = self[text] = hashlib.sha256(text.encode()).hexdigest()
        return made


@dataclass(frozen=True, slots=True)
class Text:
    """A text by its SHA-256 in hex; `value` is None when the trace keeps the hash only."""

    sha256: str
    value: str | None = None

    @classmethod
    def of(cls, text: str, hashes: Hashes) -> Text:
        """Return a text with its hash."""
        return cls(hashes[text], text)


@dataclass(frozen=True, slots=True)
class TracedContext:
    """One context. `query_id` is that of the first query that had it, "" without one."""

    query: Text
    expected_text: Text
    retrieved_text: Text
    query_id: str = ""

    @property
    def key(self) -> Key:
        """The context's key; the query's id is not part of it."""
        texts = (self.query, self.expected_text, self.retrieved_text)
        return ("context", *(text.sha256 for text in texts))

    @property
    def whole(self) -> bool:
        """Whether all texts are there."""
        return None not in (self.query.value, self.expected_text.value, self.retrieved_text.value)


@dataclass(frozen=True, slots=True)
class TracedAnswer:
    """One answer of a system under the caller's id."""

    item_id: str
    query: Text
    answer: Text
    references: Sequence[Text] = ()
    contexts: Sequence[Text] = ()
    other_answers: Sequence[Text] = ()
    sources_used: Sequence[Text] = ()
    confidence: float | None = None

    @property
    def key(self) -> Key:
        """The answer's key: its id, and all its texts."""
        shape = f"{len(self.references)}+{len(self.contexts)}"
        if self.other_answers or self.sources_used or self.confidence is not None:
            shape += f"+{len(self.other_answers)}+{len(self.sources_used)}+{self.confidence}"
        return ("answer", self.item_id, shape, *(text.sha256 for text in self._texts))

    @property
    def whole(self) -> bool:
        """Whether all texts are there."""
        return all(text.value is not None for text in self._texts)

    @property
    def _texts(self) -> Sequence[Text]:
        known = (self.references, self.contexts, self.other_answers, self.sources_used)
        return [self.query, self.answer, *chain.from_iterable(known)]


Item = TracedContext | TracedAnswer
_RARE = ("query_id", "other_answers", "sources_used", "confidence")
"""Written only where there is some, as most items have none."""


def write_item(item: Item, *, hashed: bool) -> dict[str, Any]:
    """Return the JSON object of an item, without its judgements."""
    written: dict[str, Any] = {}
    for part in fields(item):
        value = getattr(item, part.name)
        if part.name in _RARE and value in ("", (), [], None):
            continue
        texts = [value] if isinstance(value, Text) else value
        if not isinstance(texts, Sequence) or isinstance(texts, str):
            written[part.name] = value
        elif hashed or any(text.value is None for text in texts):
            hashes = [text.sha256 for text in texts]
            written[part.name + _SUFFIX] = hashes if texts is value else hashes[0]
        else:
            values = [text.value for text in texts]
            written[part.name] = values if texts is value else values[0]
    return written


def read_item(record: Record, hashes: Hashes) -> Item:
    """Return the item of a line. Raises FileError."""
    is_answer = record.get("item_id") is not None
    kind: type[TracedAnswer | TracedContext]
    kind = TracedAnswer if is_answer else TracedContext
    known = {part.name for part in fields(kind)}
    record.refuse_unknown({JUDGEMENTS, *known, *(f"{name}{_SUFFIX}" for name in known)})
    made: dict[str, Any] = {}
    for part in fields(kind):
        if part.type == "Text":
            made[part.name] = _read_text(record, part.name, hashes)
        elif part.type == "Sequence[Text]":
            made[part.name] = _read_texts(record, part.name, hashes)
    if is_answer:
        made["item_id"] = record.identifier("item_id")
    else:
        made["query_id"] = record.optional_identifier("query_id") or ""
    return record.read(kind, **made)


def _read_text(record: Record, name: str, hashes: Hashes) -> Text:
    key = name + _SUFFIX
    if record.get(key) is None:
        return Text.of(record.text(name), hashes)
    _refuse_both(record, name)
    return Text(check_sha256(record, key, record.text(key)))


def _read_texts(record: Record, name: str, hashes: Hashes) -> Sequence[Text]:
    key = name + _SUFFIX
    if record.get(key) is None:
        return tuple(Text.of(text, hashes) for text in record.texts(name))
    _refuse_both(record, name)
    return tuple(Text(check_sha256(record, key, made)) for made in record.texts(key))


def _refuse_both(record: Record, name: str) -> None:
    if record.get(name) is not None:
        raise record.error(f"has {name!r} and its hash; one of them is enough")
