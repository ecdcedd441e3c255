"""Settings: what is refused at the start, and what is only warned about."""

from __future__ import annotations

from pathlib import Path

import pytest
from judged._inputs import misspelt_variables
from judged_server.__main__ import run
from judged_server.settings import (
    PREFIX,
    Settings,
    SettingsError,
    load,
    variables,
)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("config", *Settings.model_fields):
        monkeypatch.delenv(PREFIX + name.upper(), raising=False)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("default_deadline_s = inf", "default_deadline_s: "),
        ("max_unary_deadline_s = 1e300", "max_unary_deadline_s: "),
        ("max_groups = true", "max_groups: must be a number, not true"),
        ("grase_s = 1", "grase_s: is no setting; did you mean grace_s"),
        ('max_groups = "1_000"', "max_groups: must be a number in the digits 0 to 9"),
        ('max_groups = "\uff11"', "max_groups: must be a number in the digits 0 to 9"),
    ],
)
def test_numbers_that_are_none_are_refused(tmp_path: Path, line: str, message: str):
    path = tmp_path / "server.toml"
    path.write_text(line, encoding="utf-8")
    with pytest.raises(SettingsError, match=message):
        load({}, path)


@pytest.mark.parametrize("value", ["inf", "nan", "1_0", ""])
def test_flags_and_variables_are_held_to_the_same(monkeypatch, value: str):
    with pytest.raises(SettingsError, match="default_deadline_s"):
        load({"default_deadline_s": value})
    monkeypatch.setenv("JUDGED_DEFAULT_DEADLINE_S", value)
    with pytest.raises(SettingsError, match="default_deadline_s"):
        load({})


def test_a_default_judge_that_has_no_model_to_ask_is_refused_at_the_start(capsys):
    assert run(["--default-judge", "llm", "--listen", "127.0.0.1:0"]) == 2
    said = capsys.readouterr().err
    assert "default_judge: llm asks a language model" in said
    assert "--llm-config FILE" in said


def test_misspelt_variables_are_told_and_those_of_others_left_alone():
    names = ("JUDGED_MAX_GROUP", "JUDGED_STORM_CANCELS", "JUDGED_MAX_GROUPS", "JUDGED_CONFIG", "A")
    names += ("VERDICT_LISTEN", "VERDICT_OF_ANOTHER_PROGRAM", "judged_model", "judgment")
    near, prefix, small = misspelt_variables(names, variables(), "setting")
    assert prefix == "VERDICT_LISTEN is no setting, and is not read; did you mean JUDGED_LISTEN?"
    assert near.startswith("JUDGED_MAX_GROUP ")
    assert near.endswith("did you mean JUDGED_MAX_GROUPS?")
    assert small.endswith("did you mean JUDGED_MODEL?")
