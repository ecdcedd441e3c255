"""The two commands share a prefix of variables: neither may take the other's for a typing error."""

from __future__ import annotations

from judged._inputs import misspelt_variables
from judged.cli import frame as command
from judged.cli.app import GROUP
from judged_server import settings as server

OURS, THEIRS = command.variables_of(GROUP), server.variables()


def test_no_variable_of_one_is_misspelt_to_the_other() -> None:
    assert list(misspelt_variables(OURS, THEIRS, "setting")) == []
    assert list(misspelt_variables(THEIRS, OURS, "option")) == []


def test_a_misspelt_option_is_told_and_a_harness_is_left_alone() -> None:
    environ = ("JUDGED_METRC", "JUDGED_STORM_CANCELS", "JUDGED_LISTEN")
    (said,) = misspelt_variables(environ, OURS, "option")
    assert said.startswith("JUDGED_METRC is no option")
    assert said.endswith("did you mean JUDGED_METRIC?")
