from __future__ import annotations

from typing import Any

import pytest
from judged_server.llm.toml_table import TomlTable
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
        (None, lambda t: t.text("k", ".*", "a name")),
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
        read(table(k=value) if value is not None else table())


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
