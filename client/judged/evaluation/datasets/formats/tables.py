"""Data sets in tables, a row a query: CSV, TSV, Parquet, and rows of other libraries.

Lists are JSON in a cell. A cell of answers that is no JSON list is one answer, whatever commas it
has; in a cell of ids commas separate them. Columns of no other name are metadata.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from math import isnan
from pathlib import Path
from threading import Lock
from typing import Any

from judged.errors import FailedPrecondition
from judged.evaluation.datasets.files import FileError, Record, decode, read_bytes
from judged.evaluation.datasets.formats.content import Content, Saved, lost
from judged.evaluation.datasets.query import QUERY_FIELDS, write_query

_LISTS = ("expected_answers", "expected_alternatives", "negative_answers")
_IDS = ("expected_doc_ids", "relevant_doc_ids", "relevant_docs")
_HELD = (
    *("expected_answers", "relevant_document_ids", "expected_spans", "negative_answers"),
    "metadata",
)
_COLUMNS = ("query_id", "query_text", *("expected_answers", "expected_doc_ids"))
_OPTIONAL = ("expected_spans", "negative_answers", "metadata")
_TEXT = ("query_text", "query")
_NO_VALUE = ("NAType", "NaTType")
"""The types of what pandas has in empty cells that hold no float."""
_LARGEST_LIMIT = 2**31 - 1
"""The csv module takes no larger limit where C's long has 32 bits."""
_limit = Lock()


def read_csv(path: Path | str, content: Content, *, delimiter: str | None = None) -> None:
    """Read a table with a header. Without ids, queries are q1, q2, … Raises FileError.

    Without a delimiter it is what the header has most of: commas, semicolons as spreadsheets of
    many languages write them, or tabs.
    """
    name = str(path)
    text = decode(read_bytes(path), name, None)
    delimiter = delimiter or max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        with cells_of_any_length(text):
            header = next(reader, None)
            if not header:
                raise FileError(name, None, "is empty; the first line names the columns")
            line, index = reader.line_num + 1, 0
            for cells in reader:
                if cells:  # a blank line is no query, and takes no number
                    _take_row(content, header, cells, Place(name, line, index))
                    index += 1
                line = reader.line_num + 1
    except csv.Error as error:
        raise FileError(name, reader.line_num, f"is no table: {error}") from None


@contextmanager
def cells_of_any_length(text: str) -> Iterator[None]:
    """Let the csv module read cells as long as the text, where it refuses 131,072 characters.

    Don't yield to a caller within it: other readers of tables wait until it is left.
    """
    # The limit is one for the process, and it may guard what our caller reads elsewhere: so it is
    # not raised for good. Two readers at once would each put back what the other one set: so one
    # reads at a time. A thread that reads another table meanwhile sees a higher limit, never a
    # lower one; and a limit that it sets is left alone.
    with _limit:
        before = csv.field_size_limit()
        raised = max(before, min(len(text), _LARGEST_LIMIT))
        csv.field_size_limit(raised)
        try:
            yield
        finally:
            if csv.field_size_limit() == raised:
                csv.field_size_limit(before)


class Place:
    """Where a row stands."""

    def __init__(self, name: str, line: int, index: int) -> None:
        self.name, self.line, self.index = name, line, index


def _take_row(content: Content, header: list[str], cells: list[str], place: Place) -> None:
    if len(cells) != len(header):
        problem = f"has {len(cells)} cells, and the header has {len(header)}; quote texts"
        content.refuse(FileError(place.name, place.line, problem))
        return
    row = dict(zip(header, cells, strict=True))
    take_row(content, {name: _parsed(name, cell) for name, cell in row.items()}, place)


def _parsed(name: str, cell: str) -> object:
    """Return the value of a cell of text."""
    text = cell.strip()
    if name in (*_LISTS, *_IDS, "expected_spans", "metadata") and text[:1] in ("[", "{"):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):  # no JSON, or lists in lists that are too deep
            return [cell]
        # An object is no list of answers, but an answer may be JSON itself.
        return [cell] if name in _LISTS and not isinstance(value, list) else value
    if name in _LISTS:
        return [cell] if text else []
    if name in _IDS:
        return [part.strip() for part in text.split(",") if part.strip()]
    if name in ("expected_spans", "metadata"):
        return None
    return cell


def take_row(content: Content, row: Mapping[str, object], place: Place) -> None:
    """Take a row as a query; columns of no known name are metadata. Raises FileError."""
    filled = {name: value for name, value in row.items() if value is not None and value != ""}
    known = {name: value for name, value in filled.items() if name in QUERY_FIELDS}
    others = {name: value for name, value in filled.items() if name not in QUERY_FIELDS}
    # A query may have an empty text, as those of TREC qrels have; a row of empty cells is none.
    empty = [name for name in _TEXT if row.get(name) == ""]
    if empty and not any(name in known for name in _TEXT) and any(v != [] for v in filled.values()):
        known[empty[0]] = ""
    if known.get("query_id") is None and known.get("id") is None:
        known["query_id"] = f"q{place.index + 1}"
    given = known.get("metadata")
    known["metadata"] = {**others, **(given if isinstance(given, Mapping) else {})}
    content.take_query(Record(known, place.name, place.line, ""))


def read_rows(rows: Iterable[Mapping[str, object]], content: Content) -> None:
    """Read rows that some library has: those of Hugging Face `datasets` or of pandas, say."""
    for index, row in enumerate(rows):
        plain = {name: _plain(value) for name, value in row.items()}
        cells = {n: _parsed(n, v) if isinstance(v, str) else v for n, v in plain.items()}
        take_row(content, cells, Place("rows", index + 1, index))


def _plain(value: Any) -> object:  # noqa: ANN401 - whatever the library has
    """Return what JSON has in place of arrays of NumPy, and None for an empty cell of pandas."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    # A frame has NaN in an empty cell, whatever else its column holds.
    empty = (isinstance(plain, float) and isnan(plain)) or type(plain).__name__ in _NO_VALUE
    return None if empty else plain


def write_csv(path: Path | str, dataset: Saved, *, delimiter: str = ",") -> list[str]:
    """Write a row a query; return what is lost."""
    rows = [write_query(query) for query in dataset.queries]
    columns = [*_COLUMNS, *(name for name in _OPTIONAL if any(name in row for row in rows))]
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        for row in rows:
            writer.writerow([_cell(row.get(name)) for name in columns])
    return lost(dataset, "a table", _HELD)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def read_parquet(path: Path | str, content: Content) -> None:
    """Read a Parquet file of a row a query. Raises FailedPrecondition without pyarrow."""
    read_rows(import_needed("pyarrow.parquet").read_table(str(path)).to_pylist(), content)


def write_parquet(path: Path | str, dataset: Saved) -> list[str]:
    """Write a row a query; return what is lost. Raises FailedPrecondition without pyarrow."""
    rows = [write_query(query) for query in dataset.queries]
    for row in rows:
        for name in (*_COLUMNS, *_OPTIONAL):
            row.setdefault(name, [])
        # A column has one type, and metadata may have any names: so they are one text.
        row["metadata"] = json.dumps(row["metadata"] or {}, ensure_ascii=False)
        row["expected_spans"] = json.dumps(row["expected_spans"], ensure_ascii=False)
    write_table(path, rows)
    return lost(dataset, "a table", _HELD)


def write_table(path: Path | str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows to a Parquet file. Raises FailedPrecondition without pyarrow."""
    pyarrow, parquet = import_needed("pyarrow"), import_needed("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(rows), str(path))


def import_needed(name: str) -> Any:  # noqa: ANN401 - a module of a package that is no dependency
    """Return a module of another library. Raises FailedPrecondition where it is not installed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise FailedPrecondition(
            f"this needs {package}, which is not installed; run: pip install {package}",
            code="FAILED_PRECONDITION",
        ) from None
