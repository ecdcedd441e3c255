"""What a table of a file may hold, and what its errors say: the place, the key, the rule."""

from __future__ import annotations

from datetime import date, time
from typing import Annotated, Any, Literal

import pytest
from judged_server.llm.config.file_tables import STRICT, matching, read, read_toml
from judged_server.settings import SettingsError
from pydantic import Field
from pydantic.dataclasses import dataclass as table


@table(frozen=True, config=STRICT)
class Row:
    name: Annotated[str, Field(max_length=9), matching("[a-z]*", "small letters")]
    pick: Literal["x", "y"] = "y"
    on: bool = True
    count: Annotated[int, Field(ge=0, le=9)] = 4
    share: Annotated[float | None, Field(ge=0, le=9)] = None


@table(frozen=True, config=STRICT)
class Whole:
    rows: tuple[Row, ...] = ()


def rows(*content: object) -> tuple[Row, ...]:
    found: Whole = read(Whole, {"rows": list(content)}, "f.toml", {"key": "belongs elsewhere"})
    return found.rows


def test_reads_every_type_and_has_defaults():
    whole = {"name": "a", "pick": "x", "on": False, "count": 3, "share": 2}
    assert rows(whole, {"name": ""}) == (Row("a", "x", False, 3, 2.0), Row("", "y", True, 4, None))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"name": "a\n"}, "name must be small letters"),
        ({"name": ["a"]}, "name must be a text, in quotes"),
        ({"name": "A" * 1010}, "name must have at most 9 characters"),
        ({"pick": "z"}, "pick must be 'x' or 'y'"),
        ({"on": 1}, "on must be true or false"),
        ({"count": True}, "count must be a whole number, without quotes"),
        ({"count": 1.0}, "count must be a whole number, without quotes"),
        ({"count": 10}, "count must be less than or equal to 9"),
        ({"share": True}, "share must be a number, without quotes"),
        ({"share": float("nan")}, "share must be less than or equal to 9"),
        ({"share": 10**400}, "share must be less than or equal to 9"),
        ({"name": False}, "name must be a text, in quotes"),
        ({"cuont": 1}, r"cuont is not known here; did you mean count\?"),
        ({"zzz": 1}, "zzz is not known here; leave it out"),
        ({"sk canary": 1}, "a key is not known here; leave it out"),
        ({"key": "v"}, "key belongs elsewhere"),
        ({"rows": 1}, "rows is not known here; leave it out"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_place(content: dict[str, Any], says: str):
    with pytest.raises(SettingsError, match=rf"^f\.toml: rows\[0\]( \(\w*\))?: {says}$"):
        rows({"name": "a"} | content)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([], "f must be a table"),
        ({"rows": {}}, "f: rows must be an array"),
        ({"rows": [1]}, r"f: rows\[0\] must be a table"),
        ({"rows": [{}]}, r"f: rows\[0\]: name is missing"),
        ({"rows": [{"name": "sk canary"}]}, r"f: rows\[0\]: name must be small letters"),
        ({"rows": date(2026, 1, 2)}, "f: it holds dates, which nothing here is; use quotes"),
        ({"rows": [time(1, 2)]}, "f: it holds times, which nothing here is; use quotes"),
    ],
)
def test_what_is_no_table(content: object, says: str):
    with pytest.raises(SettingsError, match=f"^{says}$"):
        read(Whole, content, "f")


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
