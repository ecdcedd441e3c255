"""Help on narrow terminals keeps names whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from judged.cli.app import app
from judged.cli.defaults import commands_of
from judged.cli.help_text import keep_words_whole

GROUP: Any = typer.main.get_command(app)
keep_words_whole(GROUP)
COMMANDS = {"": GROUP, **commands_of(GROUP)}


def helped(name: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(columns))
    command = COMMANDS[name]
    with command.make_context(name, [], resilient_parsing=True) as context:
        return str(command.get_help(context))


def words(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (getattr(parameter, "help", None) or "").split()


@pytest.mark.parametrize("name", COMMANDS)
def test_no_word_of_an_options_help_is_broken(name: str, monkeypatch: pytest.MonkeyPatch):
    printed = set(helped(name, 50, monkeypatch).split())
    assert [word for word in words(COMMANDS[name]) if word not in printed] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_options_fit_80_columns(name: str, monkeypatch: pytest.MonkeyPatch):
    options = helped(name, 80, monkeypatch).partition("Example")[0]
    assert [line for line in options.splitlines() if len(line) > 80] == []


def test_paragraphs_of_a_docstring_stay_apart(monkeypatch: pytest.MonkeyPatch):
    text = helped("judge", 60, monkeypatch)
    assert "its\n  verdict.\n\n  With --output FILE lines are read" in text
