"""The examples in the help of the commands are what the commands take."""

import shlex

import pytest
import typer
from judged.cli.app import app
from judged.cli.defaults import commands_of
from judged.cli.examples import EXAMPLES

COMMANDS = commands_of(typer.main.get_command(app))


def test_every_command_has_examples():
    assert set(EXAMPLES) == set(COMMANDS)


def test_every_command_writes_its_result_as_json():
    options = {
        name: {o for p in command.params for o in p.opts} for name, command in COMMANDS.items()
    }
    assert [name for name, known in options.items() if "--json" not in known] == []


@pytest.mark.parametrize(
    "example", [line for lines in EXAMPLES.values() for line in lines], ids=lambda line: line
)
def test_an_example_parses(example):
    program, *arguments = shlex.split(example)
    assert program == "judged"
    name = next(name for name in COMMANDS if f"{example} ".startswith(f"judged {name} "))
    arguments = arguments[len(name.split()) :]
    COMMANDS[name].make_context(name, arguments)


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_the_help_ends_with_them_line_by_line(name):
    command = COMMANDS[name]
    with typer.Context(command, info_name=f"judged {name}") as context:
        lines = [line.strip() for line in command.get_help(context).splitlines()]
    assert lines[lines.index("Examples:") + 1 :][: len(EXAMPLES[name])] == list(EXAMPLES[name])


def test_the_list_of_commands_cuts_no_sentence_at_80_columns():
    with typer.Context(typer.main.get_command(app), info_name="judged", max_content_width=80) as at:
        listed = at.get_help().partition("Commands:")[2]
    assert "canary" in listed
    assert "..." not in listed
