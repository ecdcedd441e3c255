"""Data sets in tables with a row per query: CSV, TSV, and rows of other libraries.

Lists are JSON in a cell. Any other cell of answers is one answer, even with commas, and any other
cell of ids is a list separated by commas; lists in other notations are refused. Columns with other
names are metadata.
"""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, TypeVar

from judged._files import (
    FileError,
    FileWarning,
    KnownFields,
    NotAllowed,
    Record,
    decode,
    decode_json,
    read_bytes,
    replacing_text,
)
from judged.evaluation.datasets.query import (
    IDS,
    QUERY_FIELDS,
    Content,
    Document,
    Query,
    read_query,
    write_query,
)

Value = TypeVar("Value", list[object], dict[str, object])

_LIST = re.compile(
    r"""(\w+\.)?(array|tensor|Index|Series|deque|frozenset|OrderedSet|dict_keys|<\w+>)?"""
    r"""[\s(]*(\[|[({]\s*['"][^'"]*['"]\s*[,}])"""
)
"""The beginning of a cell of answers that is a list in any notation, not a text in brackets."""
_NO_ID = re.compile(r"""^['(]|[\s"\[\]{}|;،؛，、；｜]""")  # noqa: RUF001 - as people type them
"""Marks of an id that was cut out of a list; ids that really have them need a JSON list."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")
"""Beginnings of texts that spreadsheets compute as formulas, or that are quoted by a "'"."""


def ids_of(cell: str) -> list[object]:
    """Return the ids of a cell: a JSON list, or ids separated by commas. Raises NotAllowed."""
    text = cell.strip()
    if text[:1] == "[":
        return _json(text, list)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if found := _NO_ID.search(part):
            raise NotAllowed(f'has {found[0]!r} in an id; write a list of JSON: ["one", "two"]')
    return list(parts)


def answers_of(cell: str) -> list[object]:
    """Return the answers of a cell: a list, or the cell as one answer. Raises NotAllowed."""
    text = cell.strip()
    return _json(text, list) if _is_list(text) else [cell]


def _answer_of(cell: str) -> str:
    """Return the only answer of a cell. Raises NotAllowed for a list."""
    if _is_list(cell.strip()):
        raise NotAllowed("is a list; call the column 'expected_answers'")
    return cell


def _is_list(text: str) -> bool:
    """Return whether a cell, without white space around it, is a list in any notation."""
    # "[1] says so" is a sentence; a text that ends in a bracket or begins with a quote is a list.
    is_sentence = text[0] == "[" and text[-1] != "]" and text[1:].lstrip()[:1] not in ("'", '"')
    return not is_sentence and _LIST.match(text) is not None


def _json(text: str, kind: type[Value]) -> Value:
    """Return a list or an object of JSON. Raises NotAllowed."""
    try:
        value = decode_json(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        what = "an object" if kind is dict else "a list"
        raise NotAllowed(f"is not {what} of JSON; write one, as json.dumps does")
    return value


def safe_cell(text: str) -> str:
    """Return a text as a cell that spreadsheets do not compute as a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def plain_cell(text: str) -> str:
    """Return the text of a cell made by `safe_cell`."""
    return text[1:] if text[:1] == "'" and text[1:].startswith(_FORMULA) else text


_READERS: Mapping[str, Callable[[str], object]] = {
    **dict.fromkeys(("expected_answers", "expected_alternatives", "negative_answers"), answers_of),
    "expected_text": _answer_of,
    **dict.fromkeys(IDS, ids_of),
    **dict.fromkeys(("doc_grades", "metadata"), partial(_json, kind=dict)),
    "expected_spans": partial(_json, kind=list),
}
"""The functions that read cells of columns other than plain text."""
_COLUMNS = ("query_id", "query_text", "expected_answers", "expected_doc_ids")
_OPTIONAL = ("doc_grades", "expected_spans", "negative_answers", "metadata")
_ID, _TEXT = {"query_id", "id"}, ("query_text", "query")
_SEPARATOR = re.compile(r'"?sep=([,;|:\t ])"?', re.IGNORECASE)
_NO_VALUE = ("NAType", "NaTType")
"""The types of pandas' empty cells in columns that are not floats."""
_EMPTY = ("nan", "NaN", "NaT", "<NA>")
"""What a column of pandas has for its empty cells after astype(str)."""
_NO_LETTERS = re.compile(r"[\W_]+")


def _read_rows(path: Path | str, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table with their line numbers, without blank lines. Raises FileError.

    The default delimiter is the most frequent in the header: comma, semicolon (as spreadsheets in
    many languages write), tab, or bar. Excel names it in a line above the header, `sep=;`.
    """
    name = str(path)
    text = decode(read_bytes(path), name, None)
    first = text.partition("\n")[0]
    if named := _SEPARATOR.fullmatch(first.strip("\r")):
        delimiter = named[1]
    delimiter = delimiter or max(",;\t|", key=first.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in reader:
            if cells and not (named and line == 1):
                yield line, list(map(plain_cell, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise FileError(name, reader.line_num, f"is no table: {error}") from None


def _columns_of(header: Sequence[str], name: str, line: int) -> Sequence[str]:
    """Return the columns of a table; known names in standard form: ` Query Text` is `query_text`.

    Raises FileError for a repeated column, and if no column has the text of queries. Warns
    (FileWarning) of other names that are similar to a known one.
    """
    names = {_NO_LETTERS.sub("", each): each for each in QUERY_FIELDS}
    texts = [str(column).strip() for column in header]
    columns = [names.get(_NO_LETTERS.sub("", text).casefold(), text) for text in texts]
    for twice, n in Counter(columns).items():
        if twice and n > 1:
            problem = f"the header has {twice!r} twice; rename one, or write a list into one cell"
            raise FileError(name, line, problem)
    if not set(_TEXT) & set(columns):
        folded = [column.casefold() for column in columns]
        missing = Record(dict.fromkeys(folded), name, line, "").missing(_TEXT)
        named = ", ".join(map(repr, texts))
        raise FileError(name, line, f"names {named:.300}, but {missing.problem}")
    # A column like "query_type" or "uid" beside those of the text and the id is metadata.
    there = {*_TEXT, *(_ID if _ID & set(columns) else ())}
    others = dict.fromkeys(column for column in columns if column not in QUERY_FIELDS)
    known = KnownFields(*(each for each in QUERY_FIELDS if each not in there))
    known.check(Record(others, name, line, ""))
    return columns


def read_csv(path: Path | str, content: Content, delimiter: str | None = None) -> None:
    """Read a table with a header. Without ids, queries are q1, q2, … Raises FileError."""
    name = str(path)
    try:
        header, *rows = _read_rows(path, delimiter)
        columns = _columns_of(header[1], name, header[0])
    except FileError as error:
        content.refuse(error)
        return
    except ValueError:
        content.refuse(FileError(name, None, "is empty; the first line names the columns"))
        return
    n, sizes = len(columns), [len(cells) for _, cells in rows]
    if n not in sizes and len(sizes) > 1:  # the header is wrong, not the rows
        problem = f"names {n} columns, and the rows have {sizes[0]} cells; name each of them"
        content.refuse(FileError(name, header[0], problem))
        return
    nameless = 0
    for number, (line, cells) in enumerate(rows, 1):
        if len(cells) != n:
            problem = f"has {len(cells)} cells, and the header has {n}; quote texts"
            content.refuse(FileError(name, line, problem))
            continue
        row = list(zip(columns, cells, strict=True))
        # Columns without a name may be empty, or have the row numbers that pandas writes.
        if not nameless and any(not column and c not in ("", f"{number - 1}") for column, c in row):
            nameless = line
        _take_row(content, Record(dict(row), name, line, ""), number)
    if nameless:
        problem = "has a cell in a column without a name, whose cells are left out; name it"
        warnings.warn(FileWarning(f"{name}:{nameless}: {problem}"), stacklevel=2)


def read_rows(rows: Iterable[Mapping[str, object]], content: Content) -> None:
    """Read rows of a library, such as Hugging Face `datasets` or pandas."""
    columns: dict[tuple[str, ...], Sequence[str]] = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, Mapping):
            rule = "is no mapping of columns; pass frame.to_dict('records') or table.to_pylist()"
            raise FileError("rows", number, rule)
        if (header := tuple(row)) not in columns:
            columns[header] = _columns_of(header, "rows", number)
        values = dict(zip(columns[header], map(_plain, row.values()), strict=True))
        _take_row(content, Record(values, "rows", number, ""), number)


def _take_row(content: Content, row: Record, number: int) -> None:
    """Add a row as a query. Unknown columns are metadata; columns without a name are ignored.

    Raises FileError.
    """

    def query_of(row: Record) -> Query:
        values = {name: _value(row, name, value) for name, value in row.fields.items() if name}
        known = {name: value for name, value in values.items() if value is not None and value != ""}
        filled = any(value != [] for value in known.values())
        others = {name: known.pop(name) for name in [*known] if name not in QUERY_FIELDS}
        # A query may have an empty text, as in TREC qrels, but not in a row of empty cells.
        empty = [name for name in _TEXT if row.fields.get(name) == ""]
        if empty and filled and not set(_TEXT) & set(known):
            known[empty[0]] = ""
        if not _ID & set(known):
            known["query_id"] = f"q{number}"
        given = known.setdefault("metadata", {})
        if isinstance(given, Mapping):
            known["metadata"] = {**others, **given}
        row.fields = known
        return read_query(row)

    content.take(row, query_of)


def _value(row: Record, name: str, value: object) -> object:
    """Return the value of a cell. Raises FileError."""
    if name in QUERY_FIELDS and isinstance(value, str) and value in _EMPTY:
        text = f"{row.name}: {name!r} has {value!r}, as str() writes an empty cell; leave it empty"
        warnings.warn(FileWarning(text), stacklevel=2)
    read = _READERS.get(name)
    if read is None or not isinstance(value, str):
        return value
    try:
        return read(value) if value.strip() else None
    except NotAllowed as problem:
        raise row.error(f"has {name!r} that {problem}") from None


def _plain(value: Any) -> object:  # noqa: ANN401 - whatever the library has
    """Return a value with NumPy arrays as lists, and None for an empty cell of pandas."""
    plain = value.tolist() if hasattr(value, "tolist") else value
    # A data frame has NaN in empty cells, whatever the type of the column.
    empty = (isinstance(plain, float) and isnan(plain)) or type(plain).__name__ in _NO_VALUE
    if isinstance(plain, tuple | set | frozenset):
        return list(plain)
    return None if empty else plain


def write_rows(path: Path | str, rows: Iterable[Iterable[object]], delimiter: str = ",") -> None:
    """Write a table whose texts spreadsheets do not compute as formulas."""
    with replacing_text(path, newline="") as file:
        table = csv.writer(file, delimiter=delimiter)
        for row in rows:
            table.writerow(safe_cell(cell) if isinstance(cell, str) else cell for cell in row)


def write_csv(
    path: Path, queries: Sequence[Query], _: Sequence[Document], delimiter: str = ","
) -> None:
    """Write a row per query."""
    rows = [write_query(query) for query in queries]
    columns = [*_COLUMNS, *(name for name in _OPTIONAL if any(name in row for row in rows))]
    cells = ([row.get(name, "") for name in columns] for row in rows)
    texts = (
        [c if isinstance(c, str) else json.dumps(c, ensure_ascii=False) for c in row]
        for row in cells
    )
    write_rows(path, [columns, *texts], delimiter)
