"""Queries and their results in two files, joined query by query, so that neither is held whole."""

from __future__ import annotations

import io
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, cast

from judged._files import (
    DECODER,
    FileError,
    KnownFields,
    NotAllowed,
    Record,
    open_file,
    refuse_half_characters,
    too_large,
)
from judged.evaluation.datasets.dataset import MissingText, group_of
from judged.evaluation.datasets.fit import Fit
from judged.evaluation.datasets.query import (
    DOCUMENT_FIELDS,
    QUERY_FIELDS,
    Document,
    Query,
    expects_something,
    read_document,
    read_query,
)
from judged.evaluation.datasets.results import (
    KnownOfResults,
    LineOfResults,
    Retrieved,
    read_results,
    scores_fall,
)
from judged.values import QueryGroup

JoinedQuery = tuple[Query, QueryGroup, Sequence[Retrieved]]
"""A query, the same with its results as a group, and its results as they were read."""

_BLOCK = 1 << 20
"""Characters that are read at once."""
_SPACE = re.compile(r"[ \t\n\r]*")
_OF_NUMBERS = re.compile(r"[-+.\deE]*")


_CACHE_KIB = 16 << 10
"""What is held in memory; the rest lies in a temporary file, which goes with the index."""


class JoinedFiles:
    """The queries of a file in Evret's layout with their results from a file of lines.

    The lines are in the order of the queries; a query may have none. Iterating gives the groups;
    the files are read each time, and held are the documents of the data set and, outside memory,
    the ids of queries. `n_contexts` are those of all groups, `system_models` the language models
    that lines name.
    """

    def __init__(self, dataset: Path | str, results: Path | str, *, by_spans: bool | None) -> None:
        """Check all of both files; `by_spans` is that of `Dataset.to_groups`.

        Raises ReadWhole for files that can't be joined so: a data set that can't be read item by
        item, lines in another order, files that can be read only once, or anything that is wrong
        with them, which `Dataset` and `Results` tell.
        """
        if not (Path(dataset).is_file() and Path(results).is_file()):
            raise ReadWhole("a file can be read only once")
        self._dataset, self._results = str(dataset), str(results)
        self._known = KnownOfResults()
        self._n_queries = 0
        self._documents: dict[str, Document] = {}
        self._by_spans = bool(by_spans)
        try:
            self._check(decide=by_spans is None)
        except (FileError, MissingText) as error:
            raise ReadWhole(str(error)) from None

    def __iter__(self) -> Iterator[QueryGroup]:
        return (group for _, group, _ in self.queries())

    @property
    def groups(self) -> Iterable[QueryGroup]:
        """The groups, which are read each time."""
        return self

    def queries(self) -> Iterator[JoinedQuery]:
        """Yield every query with its group and its results."""
        read = (read_query(record) for name, record in self._items() if name == "queries")
        for query, line in self._join(islice(read, self._n_queries)):
            ranked = () if line is None else line.results
            group = group_of(query, ranked, self._documents, by_spans=self._by_spans)
            yield query, group, ranked

    def query_id(self, index: int) -> str:
        """Return the id of the query at an index."""
        query, _, _ = next(islice(self.queries(), index, None))
        return query.query_id

    def _items(self) -> Iterator[tuple[str, Record]]:
        """Yield the items of all lists of the data set, each with the name of its list."""
        counts: Counter[str] = Counter()
        for name, item in read_lists(self._dataset):
            place = f"{name}[{counts[name]}]"
            counts[name] += 1
            yield name, Record({} if item is None else item, self._dataset, None, place)

    def _join(self, queries: Iterable[Query]) -> Iterator[tuple[Query, LineOfResults | None]]:
        """Yield each query with its line. Raises ReadWhole for a line that comes elsewhere."""
        with open_file(self._results) as file:
            lines = read_results(file, self._results, self._known)
            line = next(lines, None)
            for query in queries:
                found = line is not None and line.query_id == query.query_id
                yield query, line if found else None
                line = next(lines, None) if found else line
            if line is not None:
                raise ReadWhole("a line is of no query, or in another order than the queries")

    def _check(self, *, decide: bool) -> None:
        """Read all of both files once. Raises ReadWhole, FileError and MissingText."""
        missing: list[str] = []
        rising: list[str] = []
        n_of: Counter[str] = Counter()
        models: dict[str, None] = {}
        for query, line in self._join(self._checked_queries()):
            self._n_queries += 1
            n_of["expectations"] += expects_something(query)
            n_of["answers"] += len(query.expected_answers)
            n_of["spans"] += len(query.expected_spans)
            if line is None:
                missing.append(query.query_id)
                continue
            n_of["lines"] += 1
            if not query.by_id:
                n_of["contexts"] += len(line.results) * len(query.expected_answers)
                n_of["contexts by spans"] += len(line.results) * len(query.expected_spans)
            n_of["without text"] += any(r.doc_id is None or r.text is None for r in line.results)
            if line.system_model:
                models[line.system_model] = None
            if not scores_fall(line.results):
                rising.append(query.query_id)
        if not n_of["expectations"]:
            raise ReadWhole("there is no query, or none says what it should find")
        if decide:
            self._by_spans = n_of["spans"] > 0 == n_of["answers"]
        self.n_contexts = n_of["contexts by spans" if self._by_spans else "contexts"]
        self.system_models = list(models)
        self.fit = Fit(self._n_queries, n_of["lines"], missing, [], rising)
        if self._by_spans or n_of["without text"]:
            for _ in self:
                pass  # raises MissingText for what can't be judged or matched

    def _checked_queries(self) -> Iterator[Query]:
        """Yield the queries, and keep the documents. Raises ReadWhole for an id that comes twice.

        Warns of fields with nearly a known name.
        """
        known, inner = KnownFields(*QUERY_FIELDS), KnownFields(*DOCUMENT_FIELDS)
        ids = IdIndex()
        names: dict[str, object] = {}
        for name, record in self._items():
            names[name] = None
            if name == "queries":
                query = read_query(record)
                if not ids.add(query.query_id):
                    raise ReadWhole("a query comes twice")
                known.check(record)
                yield query
            elif name == "documents":
                document = read_document(record)
                if self._documents.setdefault(document.doc_id, document) is not document:
                    raise ReadWhole("a document comes twice")
                inner.check(record)
        KnownFields("queries", "documents").check(Record(names, self._dataset, None, ""))


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


class IdIndex:
    """Ids, each with the line where it stands, of which not all are held in memory."""

    def __init__(self) -> None:
        # A database without a name is a temporary file, written once the cache is full.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for pragma in (f"cache_size = -{_CACHE_KIB}", "journal_mode = OFF", "synchronous = OFF"):
            self._database.execute(f"PRAGMA {pragma}")
        self._database.execute(
            "CREATE TABLE ids (name TEXT PRIMARY KEY, line INTEGER) WITHOUT ROWID"
        )
        self._database.execute("BEGIN")

    def add(self, name: str, line: int = 0) -> bool:
        """Keep an id; say whether it is new. One that is there already stays as it is."""
        added = self._database.execute("INSERT OR IGNORE INTO ids VALUES (?, ?)", (name, line))
        return bool(added.rowcount)

    def line(self, name: str) -> int:
        """Return the line of an id that is there."""
        [found] = self._database.execute("SELECT line FROM ids WHERE name = ?", (name,))
        return int(found[0])
