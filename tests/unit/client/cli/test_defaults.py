"""Options that nobody typed: what the environment and a file give them, and what gives way."""

from __future__ import annotations

import pytest
import typer
from judged.cli.app import app
from judged.cli.defaults import (
    FILE_VARIABLE,
    commands_of,
    config_first,
    defaults,
    options_of,
    variable,
)
from judged.cli.problems import Problem
from judged_server.settings import Settings
from typer.core import TyperGroup

GROUP = typer.main.get_command(app)
assert isinstance(GROUP, TyperGroup)
COMMANDS = commands_of(GROUP)


def found(*arguments: str, **environ: str):
    given = defaults(COMMANDS, arguments, environ)
    return next(iter(given.values()), {})


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
        assert variable("judge_model") == "JUDGED_JUDGE_MODEL"
        assert FILE_VARIABLE not in {variable(name) for name in taken}

    def test_are_those_that_are_typed(self):
        named = options_of(COMMANDS["evaluate"])
        assert named["metric"].opts == ["--metric", "-m"]
        assert named["json"].name == "json_to"
        assert "help" not in named


class TestEnvironment:
    def test_gives_texts_lists_and_flags(self):
        given = found(
            "evaluate", "d.json", JUDGED_METRIC="ndcg@10 'mrr'", JUDGED_STRICT="Yes",
            JUDGED_JSON="o.json", JUDGED_PER_QUERY="0", JUDGED_PROFILE="",
        )  # fmt: skip
        assert given == {
            "metric": ["ndcg@10", "mrr"], "strict": True, "json_to": "o.json", "per_query": False,
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("environ", "message"),
        [
            ({"JUDGED_STRICT": "perhaps"}, "JUDGED_STRICT: must be true or false, or unset"),
            ({"JUDGED_PARAM": "a='b"}, "JUDGED_PARAM: has a quotation mark without its other half"),
        ],
    )
    def test_names_the_variable_that_is_wrong(self, environ, message):
        with pytest.raises(Problem) as caught:
            found("judge", "c.jsonl", **environ)
        assert str(caught.value) == message

    @pytest.mark.parametrize(
        ("environ", "message"),
        [
            (
                {"JUDGED_JUDGE_SAMPLES": "x"},
                "JUDGED_JUDGE_SAMPLES: --judge-samples does not take 'x'",
            ),
            ({"JUDGED_TRACE_TEXTS": "y"}, "JUDGED_TRACE_TEXTS: --trace-texts does not take 'y'"),
            ({"JUDGED_TIMEOUT": "0"}, "JUDGED_TIMEOUT: --timeout does not take '0'"),
        ],
    )
    def test_names_the_variable_whose_value_the_option_does_not_take(self, environ, message):
        with pytest.raises(Problem) as caught:
            found("judge", "c.jsonl", "--judge", "llm", **environ)
        assert str(caught.value).startswith(f"{message}: ")

    def test_of_a_value_that_gives_way_says_nothing(self):
        bad = {"JUDGED_JUDGE_SAMPLES": "x"}
        assert found("judge", "c.jsonl", "--judge", "exact", **bad) == {}
        found("judge", "c.jsonl", "--judge", "llm", "--judge-samples=3", **bad)

    def test_of_options_that_the_command_lacks_says_nothing(self):
        assert found("judges", JUDGED_METRIC="mrr", JUDGED_RUBRIC="helpfulness") == {}
        assert found(JUDGED_STRICT="1") == found("juge", JUDGED_STRICT="1") == {}


class TestFile:
    def test_is_below_the_environment_and_a_table_above_the_rest(self, file):
        path = file(
            "timeout = 30\nstrict = true\njudge_samples = 3\n"
            '[score]\nrubric = ["helpfulness"]\njudge-samples = 5\njudge-temperature = 0.5\n'
        )
        given = found("--config", path, "score", "a.jsonl", JUDGED_JUDGE_TEMPERATURE="0.1")
        assert given == {
            "timeout": "30", "strict": True, "rubric": ["helpfulness"], "judge_samples": "5",
            "judge_temperature": "0.1",
        }  # fmt: skip
        assert found(f"--config={path}", "metrics") == {"strict": True}
        for behind in (["--config", path], [f"--config={path}"]):
            assert found(*config_first(["metrics", "-m", "ap", *behind])) == {"strict": True}
        assert config_first(["judge", "--", "--config"]) == ["judge", "--", "--config"]

    def test_is_named_by_a_variable_too(self, file):
        path = file("strict = true")
        assert found("judges", **{FILE_VARIABLE: path}) == {}
        assert found("metrics", **{FILE_VARIABLE: path}) == {"strict": True}
        other = file("strict = false")
        assert found("--config", other, "metrics", **{FILE_VARIABLE: path}) == {"strict": False}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("judge-modle = 'm'", "judge-modle is no option; did you mean judge-model?"),
            ("[scor]\nrubric = 'a'", "[scor] is no command; did you mean score?"),
            ("[score]\nmetric = 'mrr'", ": [score]: metric is no option; known are cache-only, "),
            ("strict = 1", "strict: must be true or false"),
            ("judge-samples = [1, 2]", "judge-samples: must be one value, not a list"),
            ("judge-samples = true", "judge-samples: must be a text or a number"),
            ("metric = [['mrr']]", "metric: must be a text or a number"),
            ("judge = ", "is not TOML: "),
            ("timeout = 'soon'", "timeout: --timeout does not take 'soon'"),
        ],
    )
    def test_names_the_key_that_is_wrong(self, file, text, message):
        path = file(text)
        with pytest.raises(Problem) as caught:
            found("--config", path, "judge", "c.jsonl")
        assert path in str(caught.value)
        assert message in str(caught.value)

    def test_that_is_not_there_is_a_problem(self, tmp_path):
        with pytest.raises(Problem, match="can't be read: No such file"):
            found("--config", str(tmp_path / "none.toml"), "judge", "c.jsonl")
        (tmp_path / "latin.toml").write_bytes(b"trace = '\xe9'")
        with pytest.raises(Problem, match="is not UTF-8"):
            found("--config", str(tmp_path / "latin.toml"), "judge", "c.jsonl")


MODEL = {"JUDGED_JUDGE": "llm", "JUDGED_JUDGE_MODEL": "m", "JUDGED_JUDGE_REFRESH": "1"}


class TestGivingWay:
    """What is set for other runs never makes a run fail that types another judge."""

    def test_to_a_judge_that_is_typed(self):
        given = found("judge", "c", "--judge", "exact", **MODEL, JUDGED_PROFILE="p")
        assert given == {"judge": "llm"}  # which the flag overrides
        given = found("judge", "c", "--judge=llm", **MODEL, JUDGED_NO_JUDGE="true")
        assert given == {"judge": "llm", "judge_model": "m", "judge_refresh": True}

    def test_to_no_judge(self):
        more = {"JUDGED_MAX_COST": "1", "JUDGED_TRACE": "t"}
        for words in (["--no-judge"], ["--judge", "none"]):
            given = found("judge", "c", *words, **MODEL, **more)
            given.pop("judge", None)
            assert given == {"judge_model": "m", "trace": "t"}
        assert found("judge", "c", **MODEL, JUDGED_NO_JUDGE="1") == {
            "no_judge": True, "judge_model": "m",
        }  # fmt: skip

    def test_to_scores_that_the_lines_hold(self):
        more = {"JUDGED_MAX_COST": "1", "JUDGED_TRACE": "t", "JUDGED_TRACE_TEXTS": "hash"}
        given = found("calibrate", "l", "--judge", "none", **MODEL, **more, JUDGED_PARAM="a=b")
        assert given == {"judge": "llm"}  # which the flag overrides
        assert found("calibrate", "l", JUDGED_JUDGE="none", **more) == {"judge": "none"}
        assert found("calibrate", "l", **MODEL, **more)["trace"] == "t"

    def test_of_models_to_judges_that_ask_none(self):
        assert found("judge", "c", JUDGED_JUDGE_SAMPLES="3", JUDGED_CACHE_ONLY="1") == {}
        assert found("score", "a", JUDGED_JUDGE_SAMPLES="3") == {"judge_samples": "3"}

    def test_of_judges_to_scores_which_have_one(self):
        assert found("score", "a", JUDGED_JUDGE="llm", JUDGED_STRICT="1") == {"strict": True}
        assert found("score", "a", JUDGED_JUDGE="none") == {"judge": "none"}
        assert found("score", "a", JUDGED_JUDGE="llm", JUDGED_NO_JUDGE="1") == {"no_judge": True}

    def test_of_a_rubric_to_the_judge_that_is_calibrated_and_the_other_way_round(self):
        assert found("calibrate", "l", JUDGED_JUDGE="exact", JUDGED_RUBRIC="r") == {
            "judge": "exact"
        }
        assert found("calibrate", "l", JUDGED_RUBRIC="r") == {"rubric": "r"}
        given = found(
            "calibrate", "l", "--rubric", "r", **MODEL, JUDGED_TRACE="t", JUDGED_PARAM="a=b"
        )
        assert given == {"judge_model": "m", "judge_refresh": True}

    def test_of_models_to_a_panel_but_for_how_they_are_asked(self):
        given = found("judge", "c", "--judge", "panel", **MODEL)
        assert given == {"judge": "llm", "judge_refresh": True}

    def test_of_the_cache_to_the_other_mode(self):
        given = found("score", "a", "--cache-only", JUDGED_JUDGE_REFRESH="1")
        assert given == {}


class TestGroupsOfCommands:
    def test_an_inner_command_has_variables_and_a_table(self, file):
        path = file("timeout = 9\n[canary.check]\nrounds = 3\n[canary.record]\nasks = 12\n")
        given = defaults(COMMANDS, ("--config", path, "canary", "check", "c.json"), {})
        assert given == {"canary": {"check": {"timeout": "9", "rounds": "3"}}}
        given = defaults(COMMANDS, ("canary", "record", "c.jsonl"), {"JUDGED_ASKS": "20"})
        assert given == {"canary": {"record": {"asks": "20"}}}

    def test_a_table_of_an_inner_command_that_is_none_is_refused(self, file):
        with pytest.raises(Problem, match=r"\[canary chek\] is no command; did you mean canary"):
            defaults(COMMANDS, ("--config", file("[canary.chek]\nx = 1\n"), "judges"), {})
