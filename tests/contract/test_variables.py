"""The two commands share a prefix of variables: neither may take the other's for a typing error."""

from __future__ import annotations

from judged.cli import frame as command
from judged.cli.app import GROUP
from judged_server import settings as server

COMMANDS = command.commands_of(GROUP)


def test_no_variable_of_one_is_misspelt_to_the_other() -> None:
    options = {name for each in COMMANDS.values() for name in command.options_of(each)}
    ours = {command.FILE_VARIABLE: "", **{f"JUDGED_{name.upper()}": "" for name in options}}
    assert list(server.misspelt_variables(ours)) == []
    settings = ("config", *server.Settings.model_fields)
    theirs = {server.PREFIX + name.upper(): "" for name in settings}
    assert list(command.misspelt_variables(GROUP, theirs)) == []


def test_a_misspelt_option_is_told_and_a_harness_is_left_alone() -> None:
    environ = dict.fromkeys(("JUDGED_METRC", "JUDGED_STORM_CANCELS", "JUDGED_LISTEN"), "1")
    (said,) = command.misspelt_variables(GROUP, environ)
    assert said.startswith("JUDGED_METRC is no option")
    assert said.endswith("did you mean JUDGED_METRIC?")
