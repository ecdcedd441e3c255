"""The flags about a judge."""

from dataclasses import replace

import pytest
from judged import Judge
from judged._batching.chunks import most_contexts
from judged.cli.options.judges import read_judge, stages_as_typed
from judged.cli.problems import Problem
from judged.values import JudgeInfo, Limits, ParameterInfo, ServerInfo

PARAMETERS = [
    ParameterInfo("switch", True, "true or false", ""),
    ParameterInfo("count", 2, "a whole number, at least 1", ""),
    ParameterInfo("share", 0.5, "a number from 0 to 1", ""),
    ParameterInfo("name", "", "a name", ""),
    ParameterInfo("free", None, "anything", ""),
]
INFO = ServerInfo(
    "1",
    Limits(1, 1, 1, 1, 1, 1, 1, 1, 1),
    "typed",
    [
        JudgeInfo("typed", "first", "", 0.5, PARAMETERS, "", ""),
        JudgeInfo("typed", "bare", "", 0.5, [], "", ""),
        JudgeInfo("plain", "", "", 0.5, [], "", ""),
    ],
    [],
    [],
)


def read(*parameters, kind="typed", profile=None, min_score=None):
    return read_judge(INFO, kind, profile, min_score, parameters)


class TestReadJudge:
    def test_types_values_as_the_server_lists_them(self):
        judge = read("switch=False", "count=-3", "share=1", "name=a=b", "free=7")
        assert judge == Judge(
            "typed",
            parameters={"switch": False, "count": -3, "share": 1.0, "name": "a=b", "free": "7"},
        )
        assert type(judge.parameters["share"]) is float

    def test_leaves_the_choice_to_the_server(self):
        assert read(kind=None) == Judge()
        assert read(kind=None, min_score=0.25) == Judge(min_score=0.25)

    def test_leaves_unknown_judges_to_the_server(self):
        assert read("x=1", kind="other") == Judge("other", parameters={"x": "1"})
        assert read("x=1", profile="other") == Judge("typed", "other", parameters={"x": "1"})

    @pytest.mark.parametrize(
        ("parameters", "options", "problem"),
        [
            (["count"], {}, "--param count: write it as name=value"),
            (["=3"], {}, "--param =3: write it as name=value"),
            (
                ["coutn=3"],
                {},
                "--param coutn: judge typed first has switch, count, share, name, free; did",
            ),
            (["x=3"], {"profile": "bare"}, "--param x: judge typed bare has no parameters"),
            (["x=3"], {"kind": "plain"}, "--param x: judge plain has no parameters"),
            (["count=x"], {}, "--param count: must be a whole number, at least 1, not 'x'"),
            (["count=1.5"], {}, "--param count: must be a whole number, at least 1, not '1.5'"),
            (["count=9" + "0" * 30], {}, "--param count: must be a whole number"),
            (["share=nan"], {}, "--param share: must be a number from 0 to 1, not 'nan'"),
            (["switch=yes"], {}, "--param switch: must be true or false, not 'yes'"),
            (["count=1", "count=2"], {}, "--param count: is given twice"),
            (["count=1"], {"kind": None}, "--param: say --judge KIND too"),
            ([], {"kind": None, "profile": "p"}, "--profile: say --judge KIND too"),
        ],
    )
    def test_says_what_is_wrong(self, parameters, options, problem):
        with pytest.raises(Problem) as caught:
            read(*parameters, **options)
        assert str(caught.value).startswith(problem)

    @pytest.mark.parametrize(("default", "named"), [("llm", "llm"), ("typed", "")])
    def test_names_a_default_judge_that_asks_models(self, default: str, named: str):
        info = replace(INFO, default_judge=default)
        judge = read_judge(info, None, None, 0.25, ())
        assert judge == Judge(named, min_score=0.25)
        assert most_contexts(judge) == most_contexts(default)


class TestStagesAsTyped:
    @pytest.mark.parametrize(
        ("said", "typed"),
        [
            (
                "--member[1].judge.calibration.calibrator.accept: is too low",
                "--stage exact: calibration.calibrator.accept: is too low",
            ),
            ("--member[0].judge: takes no texts", "--stage llm:model=a: takes no texts"),
            ("--member: 9 stages; name 1 to 8", "--stage: 9 stages; name 1 to 8"),
            ("--param count: must be", "--param count: must be"),
        ],
    )
    def test_names_the_stage_that_is_wrong(self, said, typed):
        with (
            pytest.raises(Problem) as caught,
            stages_as_typed("cascade", ["llm:model=a", "exact"]),
        ):
            raise Problem(said)
        assert str(caught.value) == typed

    def test_leaves_the_members_of_a_panel_alone(self):
        with pytest.raises(Problem, match=r"--member\[0\]"), stages_as_typed("panel", None):
            raise Problem("--member[0].judge: is wrong")
