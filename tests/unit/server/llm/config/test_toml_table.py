from __future__ import annotations

from datetime import date, time
from typing import Any

import pytest
from judged_server.llm.config.toml_table import TomlTable, read_toml
from judged_server.settings import SettingsError


def table(**content: Any) -> TomlTable:
    return TomlTable(content, "f.toml: t")


def test_reads_every_type():
    read = table(name="a", pick="x", on=True, count=3, share=0.5, whole=2, rows=[{"name": "r"}])
    assert read.text("name", "[a-z]", "a letter") == "a"
    assert read.choice("pick", ("x", "y"), "y") == "x"
    assert read.flag("on", default=False) is True
    assert read.integer("count", 1, 9, 1) == 3
    assert read.number("share", 0, 1, None) == 0.5
    assert read.number("whole", 0, 9, None) == 2.0
    [row] = read.tables("rows", "name")
    assert row.where == "f.toml: t: rows[0] (r)"
    read.end()


def test_what_is_missing_is_the_default():
    read = table()
    assert read.text("name", "[a-z]", "a letter", "") == ""
    assert read.choice("pick", ("x", "y"), "y") == "y"
    assert read.flag("on", default=True) is True
    assert read.integer("count", 1, 9, 4) == 4
    assert read.number("share", 0, 1, None) is None
    assert read.tables("rows", "name") == []


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (1, lambda t: t.text("k", ".*", "a name")),
        ("A", lambda t: t.text("k", "[a-z]", "a small letter")),
        ("a\n", lambda t: t.text("k", "[a-z]", "a small letter")),
        ("z", lambda t: t.choice("k", ("x", "y"), "y")),
        (["x"], lambda t: t.choice("k", ("x", "y"), "y")),
        (1, lambda t: t.flag("k", default=False)),
        ("true", lambda t: t.flag("k", default=False)),
        (True, lambda t: t.integer("k", 0, 9, 1)),
        (1.0, lambda t: t.integer("k", 0, 9, 2)),
        (10, lambda t: t.integer("k", 0, 9, 1)),
        ("5", lambda t: t.integer("k", 0, 9, 1)),
        (True, lambda t: t.number("k", 0, 9, None)),
        (float("nan"), lambda t: t.number("k", 0, 9, None)),
        (float("inf"), lambda t: t.number("k", 0, float("inf"), None)),
        (-0.1, lambda t: t.number("k", 0, 9, None)),
        ({}, lambda t: t.tables("k", "name")),
        ([1], lambda t: t.tables("k", "name")),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_place(value, read):
    with pytest.raises(SettingsError, match=r"^f\.toml: t: k(\[0\])? must be"):
        read(table(k=value))


@pytest.mark.parametrize(
    ("read", "rule"),
    [
        (lambda t: t.text("k", ".*", "a name"), "a name"),
        (lambda t: t.integer("k", 1, 9), "a whole number from 1 to 9"),
    ],
)
def test_what_is_required_is_missing(read, rule):
    with pytest.raises(SettingsError, match=f"^f.toml: t: k is missing; it must be {rule}$"):
        read(table())


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (False, "; put it in quotes, for without them it is read as true or false"),
        (7, "; put it in quotes, for without them it is read as a number"),
        (7.5, "; put it in quotes, for without them it is read as a number"),
        (date(2026, 1, 2), "; put it in quotes, for without them it is read as a date or a time"),
        (time(1, 2), "; put it in quotes, for without them it is read as a date or a time"),
        (["a"], ""),
        ({"a": 1}, ""),
        ("A", ""),
    ],
)
def test_a_text_without_its_quotes_is_told_so(value, says):
    with pytest.raises(SettingsError, match=f"k must be a small letter{says}$"):
        table(k=value).text("k", "[a-z]", "a small letter")


@pytest.mark.parametrize(
    "read",
    [
        lambda t: t.integer("k", 1, 9, 1),
        lambda t: t.number("k", 1, 9, None),
        lambda t: t.flag("k", default=False),
    ],
)
def test_quotes_around_what_is_no_text_are_told(read):
    with pytest.raises(SettingsError, match=r"k must be [^,]*, without quotes$"):
        read(table(k="1"))


def test_a_text_may_be_too_long():
    assert table(k="a" * 9).text("k", "a*", "letters", longest=9) == "a" * 9
    with pytest.raises(SettingsError, match="t: k has 1,010 characters; make it 1,000 at most"):
        table(k="b" * 1010).text("k", "a*", "letters", longest=1000)


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
def test_what_is_no_toml_is_refused(raw, says):
    with pytest.raises(SettingsError, match=says):
        read_toml(raw, "f")


def test_unknown_keys_are_refused_with_a_guess():
    read = table(nam="a")
    read.text("name", "[a-z]", "a letter", "")
    with pytest.raises(SettingsError, match=r"t: nam is not known; did you mean name\?"):
        read.end()


def test_unknown_keys_without_a_likeness_list_what_is_known():
    read = table(zzz=1)
    read.text("name", "[a-z]", "a letter", "")
    with pytest.raises(SettingsError, match="zzz is not known; known: name"):
        read.end()


def test_hints_come_first():
    with pytest.raises(SettingsError, match="t: key belongs elsewhere"):
        table(key="v").end({"key": "belongs elsewhere"})


def test_odd_keys_and_names_are_not_shown():
    with pytest.raises(SettingsError, match="a key is not known") as caught:
        table(**{"sk canary": 1}).end()
    assert "canary" not in str(caught.value)
    [row] = table(rows=[{"name": "sk canary"}]).tables("rows", "name")
    assert row.where == "f.toml: t: rows[0]"


def test_names_are_strings_that_fit_and_differ():
    assert table(k=["a", "b"]).names("k", "[a-z]", "letters") == ("a", "b")
    assert table().names("k", "[a-z]", "letters") == ()


@pytest.mark.parametrize("value", ["a", ["a", "a"], ["1"], [1], [["a"]], {"a": 1}, None])
def test_names_that_are_not(value):
    with pytest.raises(SettingsError, match="k must be an array of letters, each one once"):
        table(k=value).names("k", "[a-z]", "letters")


def test_keys_that_make_no_sense_are_refused_with_the_reason():
    table(k=1).refuse({"other": "why"}, "this")
    with pytest.raises(SettingsError, match="t: k is not for this: why"):
        table(k=1).refuse({"k": "why"}, "this")
