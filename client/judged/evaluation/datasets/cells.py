"""What one cell of a table holds: a list, an object, or text that a spreadsheet must not compute.

Lists are JSON, or Python's and NumPy's of texts or whole numbers: `['a', 'b']`, `('a', 'b')`,
`{'a', 'b'}`, `['a' 'b']`. A cell that begins like a list and is none of these is refused.
"""

from __future__ import annotations

import ast
import re
import warnings

from judged._files import NotAllowed, decode_json, refuse_half_characters

_CLOSING = {"[": "]", "(": ")", "{": "}"}
_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_ITEM = rf"(?:{_TEXT}|-?\d+)"
_ITEMS = re.compile(rf"\s*{_ITEM}(?:(?:\s*,\s*{_ITEM})*\s*,?|(?:\s+{_ITEM})*)\s*", re.DOTALL)
"""What stands in brackets: items with commas between them, or white space as NumPy has it.

With both, a comma is missing: Python joins texts that have none between them.
"""
_CALL = r"(?:\w+\.)?(?:array|Index|list|tuple|set|frozenset|deque|dict_keys|dict_values)\("
_LIST_OF_TEXTS = re.compile(
    rf"(?:{_CALL})*(?:<\w+>\s*)?(?:\[|\(\s*{_TEXT}\s*,|\{{\s*{_TEXT}\s*[,}}])", re.DOTALL
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
