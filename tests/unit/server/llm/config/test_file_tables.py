"""What a table of a file may hold, and what its errors say: the place, the key, the rule."""

from __future__ import annotations

from datetime import date, time
from typing import Any, Literal

import pytest
from judged_server.llm.config.file_tables import (
    STRICT,
    Place,
    flag,
    number,
    one_of,
    read_toml,
    text,
    whole_number,
)
from judged_server.settings import SettingsError
from pydantic.dataclasses import dataclass as table

PLACE = Place("f.toml: t")


@table(frozen=True, config=STRICT)
class Example:
    name: str = text("small letters", "[a-z]*", "", longest=9)
    pick: Literal["x", "y"] = one_of(("x", "y"), "y")
    on: bool = flag(default=True)
    count: int = whole_number(0, 9, 4)
    share: float | None = number(0, 9, None)


@table(frozen=True, config=STRICT)
class Required:
    name: str = text("small letters", "[a-z]+")
    count: int = whole_number(1, 9)


def read(**content: Any) -> Example:
    return PLACE.read(Example, content)


def test_reads_every_type_and_has_defaults():
    assert read(name="a", pick="x", on=False, count=3, share=2) == Example("a", "x", False, 3, 2.0)
    assert read() == Example("", "y", True, 4, None)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"name": "A"}, "name must be small letters"),
        ({"name": "a\n"}, "name must be small letters"),
        ({"name": ["a"]}, "name must be small letters"),
        ({"name": "A" * 1010}, "name has 1,010 characters; make it 9 at most"),
        ({"pick": "z"}, "pick must be one of x, y"),
        ({"pick": ["x"]}, "pick must be one of x, y"),
        ({"on": 1}, "on must be true or false"),
        ({"on": "true"}, "on must be true or false, without quotes"),
        ({"count": True}, "count must be a whole number from 0 to 9"),
        ({"count": 1.0}, "count must be a whole number from 0 to 9"),
        ({"count": 10}, "count must be a whole number from 0 to 9"),
        ({"count": "5"}, "count must be a whole number from 0 to 9, without quotes"),
        ({"share": True}, "share must be a number from 0 to 9"),
        ({"share": float("nan")}, "share must be a number from 0 to 9"),
        ({"share": float("inf")}, "share must be a number from 0 to 9"),
        ({"share": 10**400}, "share must be a number from 0 to 9"),
        ({"share": "1"}, "share must be a number from 0 to 9, without quotes"),
        ({"name": False}, "name must be small letters; put it in quotes, for .* true or false"),
        ({"name": 7.5}, "name must be small letters; put it in quotes, for .* a number"),
        ({"name": date(2026, 1, 2)}, "name must be small letters; .* a date or a time"),
        ({"name": time(1, 2)}, "name must be small letters; .* a date or a time"),
        ({"cuont": 1}, r"cuont is not known; did you mean count\?"),
        ({"zzz": 1}, "zzz is not known; known: name, pick, on, count, share"),
        ({"sk canary": 1}, "a key is not known; known: .*"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_place(content: dict[str, Any], says: str):
    with pytest.raises(SettingsError, match=rf"^f\.toml: t: {says}$"):
        PLACE.read(Example, content)


def test_what_is_required_is_missing():
    with pytest.raises(SettingsError, match=r"t: name is missing; it must be small letters$"):
        PLACE.read(Required, {})
    with pytest.raises(SettingsError, match="t: count is missing; it must be a whole"):
        PLACE.read(Required, {"name": "a"})


def test_hints_come_first():
    with pytest.raises(SettingsError, match="t: key belongs elsewhere"):
        PLACE.read(Example, {"key": "v"}, {"key": "belongs elsewhere"})


def test_tables_are_named_where_the_name_can_be_shown():
    [(row, _), (odd, _)] = PLACE.tables({"rows": [{"name": "r"}, {"name": "sk canary"}]}, "rows")
    assert (row.where, odd.where) == ("f.toml: t: rows[0] (r)", "f.toml: t: rows[1]")
    assert PLACE.tables({}, "rows") == []


@pytest.mark.parametrize("rows", [{}, [1]])
def test_what_are_no_tables(rows: object):
    with pytest.raises(SettingsError, match=r"^f\.toml: t: rows(\[0\])? must be"):
        PLACE.tables({"rows": rows}, "rows")


def test_toml_is_read_with_and_without_the_mark_of_an_editor():
    assert read_toml(b"a = 1", "f") == read_toml(b"\xef\xbb\xbfa = 1", "f") == {"a": 1}


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"a = ", "f is not TOML: Invalid value"),
        (b"a = " + b"[" * 9999, "f is not TOML: it nests too deep"),
        (b"a = " + b"9" * 9999, "f is not TOML: a number in it has too many digits"),
        (b"a = '\xff'", "f: the file is not UTF-8; save it as that"),
    ],
)
def test_what_is_no_toml_is_refused(raw: bytes, says: str):
    with pytest.raises(SettingsError, match=says):
        read_toml(raw, "f")
