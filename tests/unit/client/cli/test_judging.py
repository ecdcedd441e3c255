"""The options about judges and traces, and what stands for a judge with --judge none."""

from dataclasses import replace

import pytest
from judged import InvalidArgument, Judge
from judged._batching.judging import most_contexts
from judged.cli.judging import (
    CascadeOptions,
    read_judge,
    read_pairs,
)
from judged.cli.output import Problem, explain
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


def read(*parameters, kind="typed"):
    return read_judge(INFO, kind, None, None, read_pairs("--param", parameters))


class TestReadJudge:
    def test_types_values_as_the_server_lists_them(self):
        judge = read("switch=False", "count=-3", "share=1", "name=a=b", "free=7")
        assert judge == Judge(
            "typed",
            parameters={"switch": False, "count": -3, "share": 1.0, "name": "a=b", "free": "7"},
        )
        assert type(judge.parameters["share"]) is float

    @pytest.mark.parametrize(
        ("text", "name"),
        [("count=x", "count"), ("count=1.5", "count"), ("count=9" + "0" * 30, "count"),
         ("share=nan", "share"), ("switch=yes", "switch"), ("coutn=3", "coutn")],
    )  # fmt: skip
    def test_leaves_what_is_of_another_type_to_the_server(self, text, name):
        assert read(text).parameters == {name: text.partition("=")[2]}

    def test_refuses_what_never_reaches_the_server(self):
        with pytest.raises(Problem, match="--param count=2: write it as name=value, each"):
            read("count=1", "count=2")

    @pytest.mark.parametrize("default", ["llm", "typed"])
    def test_names_the_default_judge(self, default: str):
        info = replace(INFO, default_judge=default)
        judge = read_judge(info, None, None, 0.25, {})
        assert judge == Judge(default, min_score=0.25)
        assert most_contexts(judge) == most_contexts(default)


class TestPlaces:
    PLACES = CascadeOptions().places()

    @pytest.mark.parametrize(
        ("field", "typed"),
        [
            ("judge.members[1].judge.kind", "--member or --stage[1].judge.kind"),
            ("options.interval.seed", "options.interval.seed"),
            ("judge.min_timeout", "judge.min_timeout"),
            ("start.judge.profile", "--profile"),
            ("judge.kind", "--judge"),
            ('judge.parameters["rubric"]', "--param rubric"),
        ],
    )
    def test_name_what_was_typed(self, field, typed):
        error = InvalidArgument.of_field(field, "rule")
        assert explain(error, self.PLACES) == f"{typed}: rule"
