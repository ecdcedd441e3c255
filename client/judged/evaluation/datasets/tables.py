"""Data sets in tables, a row a query: CSV, TSV, Parquet, and rows of other libraries.

Lists are JSON in a cell, or Python's and NumPy's of texts or whole numbers: `['a', 'b']`,
`('a', 'b')`, `{'a', 'b'}`, `['a' 'b']`. A cell that begins like a list and is none of these is
refused. Other cells of answers are one answer, whatever commas they have; in a cell of ids commas
separate them. Other columns are metadata.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import isnan
from pathlib import Path
from threading import Lock
from typing import Any

from judged._files import (
    FileError,
    NotAllowed,
    Record,
    decode,
    decode_json,
    read_bytes,
    refuse_half_characters,
    replacing,
    replacing_text,
)
from judged.errors import FailedPrecondition
from judged.evaluation.datasets.query import (
    IDS,
    QUERY_FIELDS,
    Content,
    Document,
    Query,
    read_query,
    write_query,
)

_CLOSING = {"[": "]", "(": ")", "{": "}"}
_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_ITEM = rf"(?:{_QUOTED}|-?\d+)"
_ITEMS = re.compile(rf"\s*{_ITEM}(?:(?:\s*,\s*{_ITEM})*\s*,?|(?:\s+{_ITEM})*)\s*", re.DOTALL)
"""What stands in brackets: items with commas between them, or white space as NumPy has it.

With both, a comma is missing: Python joins texts that have none between them.
"""
_CALL = r"(?:\w+\.)?(?:array|Index|list|tuple|set|frozenset|deque|dict_keys|dict_values)\("
_LIST_OF_TEXTS = re.compile(
    rf"(?:{_CALL})*(?:<\w+>\s*)?(?:\[|\(\s*{_QUOTED}\s*,|\{{\s*{_QUOTED}\s*[,}}])", re.DOTALL
)
"""How a cell of answers begins that is a list, and no text in brackets."""
_LIST_OF_IDS = re.compile(rf"[\[({{'\"]|{_CALL}")
_DIVIDERS = re.compile(r"[|;\t，、；｜]")  # noqa: RUF001 - as people type them
_NO_ID = re.compile(r"""^(?:[('‘`]|[-*•]\s)|["“”\[\]{}]|['’]$""")  # noqa: RUF001 - the same
"""What an id has that was cut out of a list; one that is meant so is written in a list of JSON."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")
"""How texts begin that spreadsheets compute, or take for text by the sign in front."""
_WRITE = 'write JSON: ["one", "two"], as json.dumps does'


class UnreadableCell(Exception):
    """A cell is neither what its column holds nor a plain text. The message says what to write."""


def ids_of(cell: str) -> list[object]:
    """Return the ids of a cell: a list, or what commas and line ends divide.

    Raises UnreadableCell.
    """
    text = cell.strip()
    if _LIST_OF_IDS.match(text):
        return _list(text)
    parts = [part.strip() for part in re.split(r"[,\n\r]", text) if part.strip()]
    for part in parts:
        found = _DIVIDERS.search(part) or (re.search(r"\s", part) if len(parts) == 1 else None)
        if found is not None:
            problem = f"has {found[0]!r} in it; divide ids by commas"
            raise UnreadableCell(f'{problem}, or write JSON where it belongs to an id: ["an id"]')
        if _NO_ID.search(part) or part.count("(") != part.count(")"):
            raise UnreadableCell(f"has brackets or quotes in it and is no list; {_WRITE}")
    return list(parts)


def answers_of(cell: str) -> list[object]:
    """Return the answers of a cell: a list, or the cell as one answer. Raises UnreadableCell."""
    text = cell.strip()
    if not _LIST_OF_TEXTS.match(text):
        return [cell] if text else []
    # "[1] says so" is a sentence; what ends as it begins, or begins with a quote, is a list.
    if text[0] == "[" and text[-1] != "]" and text[1:].lstrip()[:1] not in ("'", '"'):
        return [cell]
    return _list(text)


def value_of(cell: str, kind: type[list[object] | dict[str, object]]) -> object:
    """Return the list or the object that a cell holds; None of an empty one.

    Raises UnreadableCell.
    """
    if not (text := cell.strip()):
        return None
    value = _json(text) or _literal(text)
    if not isinstance(value, kind):
        what = "an object" if kind is dict else "a list of objects"
        raise UnreadableCell(f"is not {what}; write JSON, as json.dumps does")
    return value


def _list(text: str) -> list[object]:
    """Return the items of a list. Raises UnreadableCell."""
    value = _json(text)
    if isinstance(value, list):
        return value
    inner = text if text[0] in "'\"" else text[1:-1]
    if inner is text or text[1:].endswith(_CLOSING.get(text[0], " ")):
        if not inner.strip():
            return []
        items = [_literal(item) for item in re.findall(_ITEM, inner, re.DOTALL)]
        if _ITEMS.fullmatch(inner) and None not in items:
            return items
    raise UnreadableCell(f"begins like a list and can't be read as one; {_WRITE}")


def _json(text: str) -> object:
    """Return the value of JSON, None for other texts. Raises UnreadableCell."""
    try:
        return decode_json(text)
    except NotAllowed as problem:
        raise UnreadableCell(str(problem)) from None
    except (ValueError, RecursionError):
        return None


def _literal(text: str) -> object:
    """Return the value of Python's notation, None for other texts. Raises UnreadableCell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a backslash that is no escape, as in 'C:\docs'
            value = ast.literal_eval(text)
            refuse_half_characters(value)
    except NotAllowed as problem:
        raise UnreadableCell(str(problem)) from None
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, Warning):
        return None
    return value


def safe_cell(text: str) -> str:
    """Return a text as a table that spreadsheets open has it: none of it is computed."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def plain_cell(text: str) -> str:
    """Return the text of which `safe_cell` made a cell."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(_FORMULA) else text


_READERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("expected_answers", "expected_alternatives", "negative_answers"), answers_of),
    **dict.fromkeys(IDS, ids_of),
    **dict.fromkeys(("doc_grades", "metadata"), partial(value_of, kind=dict)),
    "expected_spans": partial(value_of, kind=list),
}
"""What reads the cells of a column that is no plain text."""
_COLUMNS = ("query_id", "query_text", "expected_answers", "expected_doc_ids")
_OPTIONAL = ("doc_grades", "expected_spans", "negative_answers", "metadata")
_TEXT = ("query_text", "query")
_SEPARATOR = re.compile(r'"?sep=([,;|:\t ])"?', re.IGNORECASE)
_NO_VALUE = ("NAType", "NaTType")
"""The types of what pandas has in empty cells that hold no float."""
_LARGEST_LIMIT = 2**31 - 1
"""The csv module takes no larger limit where C's long has 32 bits."""
_limit = Lock()
"""Held while the limit of cells is raised, which is one for the process."""
_NO_LETTERS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of text: its columns with the line that names them, and its rows with theirs."""

    name: str
    columns: Sequence[str]
    line: int
    rows: Sequence[tuple[int, list[str]]]

    def row(self, line: int, cells: list[str]) -> list[tuple[str, str]]:
        """Return the cells of a row with their columns. Raises FileError for more or fewer."""
        n = len(self.columns)
        if len(cells) != n:
            problem = f"has {len(cells)} cells, and the header has {n}; quote texts"
            raise FileError(self.name, line, problem)
        return list(zip(self.columns, cells, strict=True))


def read_table(path: Path | str, known: Iterable[str], delimiter: str | None = None) -> Table:
    """Return the table of a file, with the columns of `columns_of`; blank lines are no rows.

    Without a delimiter it is what the header has most of: commas, semicolons as spreadsheets of
    many languages write them, tabs, or bars. Excel names it in a line above the header, `sep=;`.
    Raises FileError.
    """
    name = str(path)
    text = decode(read_bytes(path), name, None)
    first = text.partition("\n")[0]
    if named := _SEPARATOR.fullmatch(first.strip("\r")):
        delimiter = named[1]
    delimiter = delimiter or max(",;\t|", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[tuple[int, list[str]]] = []
    line = 1
    with _limit:
        before = csv.field_size_limit(_LARGEST_LIMIT)
        try:
            for cells in reader:
                if cells:
                    rows.append((line, [plain_cell(c) if c[:1] == "'" else c for c in cells]))
                line = reader.line_num + 1
        except csv.Error as error:
            raise FileError(name, reader.line_num, f"is no table: {error}") from None
        finally:
            csv.field_size_limit(before)
    if named:
        del rows[:1]
    if not rows:
        raise FileError(name, None, "is empty; the first line names the columns")
    line, header = rows.pop(0)
    return Table(name, columns_of(header, name, line, known), line, rows)


def columns_of(
    header: Sequence[str], name: str, line: int | None, known: Iterable[str]
) -> list[str]:
    """Return the columns of a table, those with a `known` name by it: ` Query Text`, `query_text`.

    Raises FileError for a column that is there twice.
    """
    names = {_NO_LETTERS.sub("", each): each for each in known}
    texts = [str(column).strip() for column in header]
    columns = [names.get(_NO_LETTERS.sub("", text).casefold(), text) for text in texts]
    for twice, n in Counter(columns).items():
        if twice and n > 1:
            spelt = [at for at, column in zip(header, columns, strict=True) if column == twice]
            raise FileError(
                name,
                line,
                f"the header has {twice!r} twice ({', '.join(map(repr, spelt))}); rename one of "
                "them, or write several answers or ids as a list of JSON in one cell",
            )
    return columns


def _need_text(columns: Sequence[str], name: str, line: int | None) -> Sequence[str]:
    """Return the columns. Raises FileError where none is the text of queries."""
    if not set(_TEXT) & set(columns):
        raise Record(dict.fromkeys(columns), name, line, "").missing(_TEXT)
    return columns


def read_csv(path: Path | str, content: Content, delimiter: str | None = None) -> None:
    """Read a table with a header. Without ids, queries are q1, q2, … Raises FileError."""
    try:
        table = read_table(path, QUERY_FIELDS, delimiter)
        n = len(_need_text(table.columns, table.name, table.line))
    except FileError as error:
        content.refuse(error)
        return
    sizes = [len(cells) for _, cells in table.rows]
    if n not in sizes and len(sizes) > 1:  # not the rows are wrong but the header
        of_header = f"names {n} columns, and the rows have {sizes[0]} cells; name each of them"
        content.refuse(FileError(table.name, table.line, of_header))
        return
    for index, (line, cells) in enumerate(table.rows):
        try:
            row = table.row(line, cells)
        except FileError as error:
            content.refuse(error)
            continue
        # Without a name may be columns that are empty, and the numbers that pandas gives rows.
        values = {name: c for name, c in row if name or c not in ("", str(index))}
        _take_row(content, Record(values, table.name, line, ""), index)


def read_rows(rows: Iterable[Mapping[str, object]], content: Content, name: str = "rows") -> None:
    """Read rows that some library has: those of Hugging Face `datasets` or of pandas, say."""
    columns: dict[tuple[str, ...], Sequence[str]] = {}
    for index, row in enumerate(rows):
        if (header := tuple(row)) not in columns:
            found = columns_of(header, name, index + 1, QUERY_FIELDS)
            columns[header] = _need_text(found, name, index + 1)
        values = dict(zip(columns[header], map(_plain, row.values()), strict=True))
        _take_row(content, Record(values, name, index + 1, ""), index)


def _take_row(content: Content, row: Record, index: int) -> None:
    """Take a row as a query; columns of no known name are metadata. Raises FileError."""

    def query_of(row: Record) -> Query:
        values = {name: _value(row, name, value) for name, value in row.fields.items()}
        known = {name: value for name, value in values.items() if value is not None and value != ""}
        if "" in known:
            told = "has a cell in a column without a name, whose cells are left out; name it"
            row.left_out[""] = str(row.error(told))
        filled = any(value != [] for value in known.values())
        others = {name: known.pop(name) for name in [*known] if name not in QUERY_FIELDS}
        # A query may have an empty text, as those of TREC qrels have; a row of empty cells is none.
        empty = [name for name in _TEXT if row.fields.get(name) == ""]
        if empty and filled and not set(_TEXT) & set(known):
            known[empty[0]] = ""
        if not {"query_id", "id"} & set(known):
            known["query_id"] = f"q{index + 1}"
        given = known.setdefault("metadata", {})
        if isinstance(given, Mapping):
            others.pop("", None)
            known["metadata"] = {**others, **given}
        row.fields = known
        return read_query(row)

    content.take(row, query_of)


def _value(row: Record, name: str, value: object) -> object:
    """Return what a cell holds. Raises FileError."""
    try:
        return _READERS.get(name, str)(value) if isinstance(value, str) else value
    except UnreadableCell as problem:
        raise row.error(f"has {name!r} that {problem}") from None


def _plain(value: Any) -> object:  # noqa: ANN401 - whatever the library has
    """Return what JSON has in place of arrays of NumPy, and None for an empty cell of pandas."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    # A frame has NaN in an empty cell, whatever else its column holds.
    empty = (isinstance(plain, float) and isnan(plain)) or type(plain).__name__ in _NO_VALUE
    if isinstance(plain, tuple | set | frozenset):
        return list(plain)
    return None if empty else plain


def write_rows(path: Path | str, rows: Iterable[Iterable[object]], delimiter: str = ",") -> None:
    """Write a table that spreadsheets compute no text of."""
    with replacing_text(path, newline="") as file:
        table = csv.writer(file, delimiter=delimiter)
        for row in rows:
            table.writerow(safe_cell(cell) if isinstance(cell, str) else cell for cell in row)


def write_csv(
    path: Path, queries: Sequence[Query], _: Sequence[Document], delimiter: str = ","
) -> list[str]:
    """Write a row a query."""
    rows = [write_query(query) for query in queries]
    columns = [*_COLUMNS, *(name for name in _OPTIONAL if any(name in row for row in rows))]
    cells = ([row.get(name, "") for name in columns] for row in rows)
    texts = (
        [c if isinstance(c, str) else json.dumps(c, ensure_ascii=False) for c in row]
        for row in cells
    )
    write_rows(path, [columns, *texts], delimiter)
    return []


def read_parquet(path: Path | str, content: Content) -> None:
    """Read a Parquet file of a row a query. Raises FailedPrecondition without pyarrow."""
    table = import_needed("pyarrow.parquet").read_table(str(path))
    try:  # rows have the last alone of two columns with one name
        columns = columns_of(table.column_names, str(path), None, QUERY_FIELDS)
        _need_text(columns, str(path), None)
    except FileError as error:
        content.refuse(error)
    else:
        read_rows(table.to_pylist(), content, str(path))


def write_parquet(path: Path, queries: Sequence[Query], _: Sequence[Document]) -> list[str]:
    """Write a row a query. Raises FailedPrecondition without pyarrow."""
    rows = [write_query(query) for query in queries]
    for row in rows:
        for name in (*_COLUMNS, *_OPTIONAL):
            row.setdefault(name, [])
        # A column has one type, and metadata may have any names: so they are one text.
        for name, none in (("metadata", {}), ("doc_grades", {}), ("expected_spans", [])):
            row[name] = json.dumps(row[name] or none, ensure_ascii=False)
    write_table(path, rows)
    return []


def write_table(path: Path | str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write rows to a Parquet file. Raises FailedPrecondition without pyarrow."""
    pyarrow, parquet = import_needed("pyarrow"), import_needed("pyarrow.parquet")
    with replacing(path) as beside:
        parquet.write_table(pyarrow.Table.from_pylist(rows), str(beside))


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
