"""What one cell of a table holds: a list, an object, or text that a spreadsheet must not compute.

Lists are JSON, or what Python, NumPy and pandas print: `['a', 'b']`, `('a', 'b')`, `{'a', 'b'}`,
`['a' 'b']`, `array(['a'], dtype=object)`. A cell that begins like a list is one, or is refused.
"""

from __future__ import annotations

import ast
import re
import warnings

from judged.evaluation.datasets.files import DECODER, NotAllowed, refuse_half_characters

_CLOSING = {"[": "]", "(": ")", "{": "}"}
_TEXT = r"""u?(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_ITEM = re.compile(rf"(?:np|numpy)\.\w+\(({_TEXT}|-?\d+)\)|({_TEXT}|-?\d+)", re.DOTALL)
_BETWEEN = re.compile(r"\s*,\s*|\s+|$")
_WRAPPER = r"(?:\w+\.)?(?:array|Index|list|tuple|set|frozenset|deque|dict_keys|dict_values)\("
_WRAPPED = re.compile(rf"{_WRAPPER}(.*?)(?:,\s*(?:dtype|name|maxlen)=[^\]]*)?\)", re.DOTALL)
_LIST_OF_TEXTS = re.compile(
    rf"(?:{_WRAPPER}\s*)*(?:<\w+>\s*)?(?:\[|\(\s*{_TEXT}\s*,|\{{\s*{_TEXT}\s*[,}}]|(?<=\()\{{)",
    re.DOTALL,
)
"""How a cell of answers begins that is a list, and no text in brackets."""
_LIST_OF_IDS = re.compile(rf"[\[({{'\"]|{_WRAPPER}")
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
    try:
        return _list(text)
    except UnreadableCell:
        # "[1] says so" is a sentence; what ends as it begins, or begins with a quote, is a list.
        if text[0] == "[" and text[-1] != "]" and text[1:].lstrip()[:1] not in ("'", '"'):
            return [cell]
        raise


def value_of(cell: str, kind: type[list[object] | dict[str, object]]) -> object:
    """Return the list or the object that a cell holds; None of an empty one.

    Raises UnreadableCell.
    """
    if not (text := cell.strip()):
        return None
    value = _literal(text)
    if not isinstance(value, kind):
        what = "an object" if kind is dict else "a list of objects"
        raise UnreadableCell(f"is not {what}; write JSON, as json.dumps does")
    return value


def _list(text: str) -> list[object]:
    """Return the items of a list as anybody prints it. Raises UnreadableCell."""
    value = _json(text)
    if isinstance(value, list):
        return value
    inner = text
    while wrapped := _WRAPPED.fullmatch(inner):
        inner = wrapped[1].strip()
    if inner[:1] in _CLOSING and inner[1:].endswith(_CLOSING[inner[0]]):
        return _items(inner[1:-1].strip())
    if inner != text and not inner:
        return []  # set()
    if text[0] in "'\"":
        return _items(text)
    raise UnreadableCell(f"begins like a list and is none; {_WRITE}")


def _items(text: str) -> list[object]:
    """Return the texts and whole numbers that commas divide, or else white space, as NumPy does."""
    items: list[object] = []
    dividers: set[str] = set()
    at = 0
    while at < len(text):
        found = _ITEM.match(text, at)
        between = None if found is None else _BETWEEN.match(text, found.end())
        value = None if found is None else _literal(found[1] or found[2])
        if between is None or value is None:
            raise UnreadableCell(f"begins like a list and can't be read as one; {_WRITE}")
        items.append(value)
        at = between.end()
        if between[0]:
            dividers.add(between[0].strip())
    if len(dividers) > 1:  # Python joins texts without a comma between them; NumPy has none at all
        raise UnreadableCell(f"is a list in which a comma is missing; {_WRITE}")
    return items


def _json(text: str) -> object:
    """Return the value of JSON, None for other texts. Raises UnreadableCell."""
    try:
        value: object = DECODER.decode(text)
        if "\\u" in text:
            refuse_half_characters(value)
    except NotAllowed as problem:
        raise UnreadableCell(str(problem)) from None
    except (ValueError, RecursionError):
        return None
    return value


def _literal(text: str) -> object:
    """Return the value of JSON or of Python's notation, None for neither."""
    if (value := _json(text)) is not None:
        return value
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
