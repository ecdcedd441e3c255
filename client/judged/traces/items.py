"""What a trace has judgements of: contexts, and answers. Texts may be kept as hashes only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from judged.evaluation.datasets.files import Record
from judged.traces.keys import checked_sha256, refuse_unknown

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
_CONTEXT = ("query", "expected_text", "retrieved_text")
_ANSWER = ("query", "answer")
_LISTS = ("references", "contexts")
_RARE_LISTS = ("other_answers", "sources_used")
"""Written only where there are some, as most answers have none."""
_CONFIDENCE = "confidence"


def write_item(item: Item, *, hashed: bool) -> dict[str, Any]:
    """Return the JSON object of an item, without its judgements."""
    fields: dict[str, Any] = {}
    if isinstance(item, TracedContext):
        if item.query_id:
            fields["query_id"] = item.query_id
        for name in _CONTEXT:
            fields |= _write_text(name, getattr(item, name), hashed)
        return fields
    fields["item_id"] = item.item_id
    for name in _ANSWER:
        fields |= _write_text(name, getattr(item, name), hashed)
    if item.confidence is not None:
        fields[_CONFIDENCE] = item.confidence
    for name in _LISTS + _RARE_LISTS:
        texts: Sequence[Text] = getattr(item, name)
        if not texts and name in _RARE_LISTS:
            continue
        values = [text.value for text in texts]
        if hashed or None in values:
            fields[name + _SUFFIX] = [text.sha256 for text in texts]
        else:
            fields[name] = values
    return fields


def read_item(record: Record, hashes: Hashes) -> Item:
    """Return the item of a line. Raises FileError."""
    is_answer = record.get("item_id") is not None
    names = _ANSWER if is_answer else _CONTEXT
    lists = _LISTS + _RARE_LISTS if is_answer else ()
    known = {JUDGEMENTS, "item_id" if is_answer else "query_id"}
    if is_answer:
        known.add(_CONFIDENCE)
    known |= {name + suffix for name in (*names, *lists) for suffix in ("", _SUFFIX)}
    refuse_unknown(record, known)
    texts = [_read_text(record, name, hashes) for name in names]
    if is_answer:
        item_id = record.identifier("item_id")
        query, answer = texts
        return TracedAnswer(
            item_id,
            query,
            answer,
            **{name: _read_texts(record, name, hashes) for name in _LISTS},
            **{name: _read_texts(record, name, hashes) or () for name in _RARE_LISTS},
            confidence=record.optional_number(_CONFIDENCE),
        )
    query, expected, retrieved = texts
    return TracedContext(query, expected, retrieved, record.optional_identifier("query_id") or "")


def _write_text(name: str, text: Text, hashed: bool) -> Mapping[str, str]:
    if hashed or text.value is None:
        return {name + _SUFFIX: text.sha256}
    return {name: text.value}


def _read_text(record: Record, name: str, hashes: Hashes) -> Text:
    if record.get(name + _SUFFIX) is None:
        return Text.of(record.text(name), hashes)
    _refuse_both(record, name)
    key = name + _SUFFIX
    return Text(checked_sha256(record, key, record.text(key)))


def _read_texts(record: Record, name: str, hashes: Hashes) -> Sequence[Text]:
    if record.get(name + _SUFFIX) is None:
        return [Text.of(text, hashes) for text in record.texts(name)]
    _refuse_both(record, name)
    key = name + _SUFFIX
    return [Text(checked_sha256(record, key, made)) for made in record.texts(key)]


def _refuse_both(record: Record, name: str) -> None:
    if record.get(name) is not None:
        raise record.error(f"has {name!r} and its hash; one of them is enough")
