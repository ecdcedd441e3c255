"""Options: of the command line, the environment, a file; what gives way, and what is refused."""

from __future__ import annotations

import os
import shlex
from dataclasses import MISSING, fields
from unittest.mock import patch

import click
import pytest
from judged.cli import frame
from judged.cli.app import GROUP, run
from judged.cli.frame import FILE_VARIABLE, commands_of, options_of
from judged_server.settings import Settings

COMMANDS = commands_of(GROUP)
EXAMPLES = [
    (name, line.strip())
    for name, command in COMMANDS.items()
    for line in (command.epilog or "").splitlines()
    if line.startswith("  ")
]


def made(*arguments: str, **environ: str):
    """The command that would run."""
    found = []

    def keep(context, kind, given):
        found.append(frame.made(context, kind, given))

    variables = {name: value for name, value in os.environ.items() if "JUDGED_" not in name}
    with patch.dict(os.environ, variables | environ, clear=True), patch.object(frame, "_run", keep):
        run(arguments)
    return found[0] if found else None


def given(*arguments: str, **environ: str):
    """The options that are not their defaults."""
    command = made(*arguments, **environ)
    defaults = {each.name: each.default for each in fields(command) if each.init}
    return {
        name: getattr(command, name)
        for name, default in defaults.items()
        if default is not MISSING and getattr(command, name) != default
    }


@pytest.fixture
def file(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "judged.toml"
        path.write_text(text)
        return str(path)

    return write


class TestNames:
    def test_no_option_is_called_as_a_setting_of_the_server(self):
        taken = {name for command in COMMANDS.values() for name in options_of(command)}
        assert taken.isdisjoint(Settings.model_fields)
        assert not {f"JUDGED_{name.upper()}" for name in taken} & {FILE_VARIABLE, "JUDGED_TOKEN"}

    def test_every_command_writes_its_result_as_json(self):
        assert [name for name, each in COMMANDS.items() if "json" not in options_of(each)] == []


class TestHelp:
    def test_every_command_has_examples(self):
        assert {name for name, _ in EXAMPLES} == set(COMMANDS)

    @pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[line for _, line in EXAMPLES])
    def test_an_example_parses(self, name, example):
        program, *words = shlex.split(example)
        assert program == "judged"
        assert words[: len(name.split())] == name.split()
        with click.Context(GROUP) as root:
            COMMANDS[name].make_context(name, words[len(name.split()) :], parent=root)


class TestEnvironment:
    def test_gives_texts_lists_and_flags(self):
        found = given(
            "evaluate", "d.json", "--results", "r",
            JUDGED_METRIC="ndcg@10 mrr", JUDGED_STRICT="Yes", JUDGED_JSON="o.json",
            JUDGED_PER_QUERY="0", JUDGED_PROFILE="",
        )  # fmt: skip
        assert found.pop("results") == "r"
        assert found == {"metric": ("ndcg@10", "mrr"), "strict": True, "json": "o.json"}

    def test_a_misspelt_variable_is_told(self, capsys):
        others = {"JUDGED_GRACE_S": "1", "JUDGED_STORM": "1", "VERDICT_X": "1"}
        made("judges", JUDGED_JUDGE_MODLE="m", VERDICT_TARGET="x", **others)
        assert capsys.readouterr().err == (
            "judged: warning: JUDGED_JUDGE_MODLE is no option, and is not read; did you mean "
            "JUDGED_JUDGE_MODEL?\n"
            "judged: warning: VERDICT_TARGET is no option, and is not read; did you mean "
            "JUDGED_TARGET?\n"
        )


class TestFile:
    def test_is_below_the_environment_and_a_table_above_the_rest(self, file):
        path = file(
            "timeout = 30\nstrict = true\njudge_samples = 3\n"
            '[score]\nrubric = "helpfulness"\nparam = ["a=b"]\n'
            "judge-samples = 5\njudge-temperature = 0.5\n"
        )
        found = given("--config", path, "score", "a.jsonl", JUDGED_JUDGE_TEMPERATURE="0.1")
        assert found == {
            "timeout": 30.0, "strict": True, "rubric": ("helpfulness",), "param": ("a=b",),
            "judge_samples": 5, "judge_temperature": 0.1,
        }  # fmt: skip
        assert given("--config", path, "judges") == {}

    def test_is_named_by_a_variable_too(self, file, tmp_path):
        path = file("strict = true")
        assert given("agree", "l", **{FILE_VARIABLE: path}) == {"strict": True}
        (tmp_path / "other").write_text("strict = false")
        other = str(tmp_path / "other")
        assert given("--config", other, "agree", "l", **{FILE_VARIABLE: path}) == {}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("judge-modle = 'm'", "judged.toml: judge-modle is no option; see --help"),
            ("judge-model = ['m']", "judged.toml: judge-model takes one value, not a list"),
            ("[scor]\nrubric = 'a'", "[scor]: rubric is no option"),
            (
                "[score]\nmetric = ['mrr']",
                "[score]: metric is no option",
            ),
            ("judge-samples = true", "'True' is not a valid int"),
            ("judge = ", "can't be read as TOML: "),
            ("timeout = 'soon'", "Invalid value for '--timeout': 'soon'"),
            ("[canary.chek]\nx = 1\n", "[canary chek]: x is no option"),
        ],
    )
    def test_names_the_key_that_is_wrong(self, capsys, file, text, message):
        path = file(text)
        assert made("--config", path, "judge", "c.jsonl") is None
        said = capsys.readouterr().err
        assert message in said

    def test_that_is_not_there_is_a_problem(self, capsys, tmp_path):
        made("--config", str(tmp_path / "none.toml"), "judge", "c.jsonl")
        assert "No such file" in capsys.readouterr().err

    def test_an_inner_command_has_variables_and_a_table(self, file):
        path = file("timeout = 9\n[canary.check]\nrounds = 3\n[canary.record]\nasks = 12\n")
        found = given("--config", path, "canary", "check", "c.json")
        assert found == {"timeout": 9.0, "rounds": 3}
        assert made("canary", "record", "c.jsonl", "-o", "c", JUDGED_ASKS="20").asks == 20


MODEL = {"JUDGED_JUDGE": "llm", "JUDGED_JUDGE_MODEL": "m", "JUDGED_JUDGE_REFRESH": "1"}
TRACE = {"JUDGED_MAX_COST": "1", "JUDGED_TRACE": "t"}
LINES = {"JUDGED_PARAM": "a=b"}


class TestGivingWay:
    """What is set for other runs never makes a run fail that types another judge."""

    @pytest.mark.parametrize(
        ("words", "environ", "kept"),
        [
            ("judge c --judge exact", MODEL, {"judge": "exact"}),
            ("judge c --judge exact", {"JUDGED_JUDGE": "exact", "JUDGED_PROFILE": "p"},
             {"judge": "exact", "profile": "p"}),
            ("judge c --judge none", MODEL | TRACE,
             {"judge": "none", "trace": "t"}),
            ("calibrate l --judge none", MODEL | TRACE | LINES, {"judge": "none"}),
            ("calibrate l", TRACE | LINES | {"JUDGED_JUDGE": "none"}, {"judge": "none"}),
            ("judge c", {"JUDGED_JUDGE_SAMPLES": "3", "JUDGED_CACHE_ONLY": "1"}, {}),
            ("score a --rubric r", {"JUDGED_JUDGE_SAMPLES": "3"},
             {"rubric": ("r",), "judge_samples": 3}),
            ("score a --rubric r", {"JUDGED_JUDGE": "llm", "JUDGED_STRICT": "1"},
             {"rubric": ("r",), "strict": True}),
            ("score a --rubric r", {"JUDGED_JUDGE": "none"}, {"rubric": ("r",), "judge": "none"}),
            ("calibrate l", {"JUDGED_JUDGE": "exact", "JUDGED_RUBRIC": "r"}, {"judge": "exact"}),
            ("calibrate l", {"JUDGED_RUBRIC": "r"}, {"rubric": "r"}),
            ("judge c --judge panel", MODEL, {"judge": "panel", "judge_refresh": True}),
            ("score a --rubric r --cache-only", {"JUDGED_JUDGE_REFRESH": "1"},
             {"rubric": ("r",), "cache_only": True}),
        ],
    )  # fmt: skip
    def test_leaves_what_goes_together(self, words, environ, kept):
        assert given(*words.split(), **environ) == kept


class TestRefusals:
    """A flag that is typed beside one that it excludes is a mistake."""

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            ("judge c --trace-judge x --trace t", "--trace-judge: is for --judge none with"),
            ("judge c --trace-judge x --judge none", "--trace-judge: is for --judge none with"),
            (
                "judge c --judge none --profile p",
                "--profile: --judge none runs no judge",
            ),
            ("judge c --judge none --calibration f", "--calibration: --judge none runs"),
            ("judge c --judge exact --judge-refresh", "--judge-refresh: is for --judge llm or --"),
            ("judge c --cache-only", "--cache-only: is for --judge llm"),
            ("judge c --judge llm --cache-only --judge-refresh", "--cache-only asks no model"),
            ("judge c --judge-max-tokens 9", "--judge-max-tokens: is for --judge llm"),
            ("judge c --judge exact --member exact", "--member: is for --judge panel"),
            ("judge c --stage exact", "--stage: is for --judge cascade"),
            ("metrics --qrels q --run a --run b -m mrr", "--run is there twice"),
            ("judge c -o a --output=b", "--output is there twice"),
            ("--config a --config b judge c", "--config is there twice"),
            ("judge c --cascade f --judge exact", "--cascade: the file names the judges"),
            ("judge c --judge none --max-cost 1", "--max-cost: no model is asked"),
            ("score a --rubric r --judge llm", "--judge: answers are scored by language"),
            ("calibrate l --judge none --profile p", "--profile: --judge none runs"),
            ("calibrate l --judge none --estimate", "--estimate: --judge none asks no judge"),
        ],
    )
    def test_name_what_is_wrong(self, capsys, words, says):
        assert made(*words.split()) is None
        assert says in capsys.readouterr().err
