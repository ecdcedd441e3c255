"""The command that gets a missing judgement: this one, with the judge that was recorded."""

import sys
from types import SimpleNamespace

import pytest
from judged import FailedPrecondition
from judged.cli.next_step import (
    any_judge,
    before_asking,
    command,
    judge_flags,
    score_flags,
    threshold_flag,
)
from judged.types import ChatModelInfo, JudgeIdentity, JudgeInfo, ParameterInfo, RubricInfo

LLM = "llm|rubric:retrieval_match@1|model:small|samples:1|v1"


def judged_by(signature, threshold=0.5, profile=""):
    return JudgeIdentity(signature.partition("|")[0], profile, threshold, signature, "", "")


def model(name, unavailable="", *, is_default=False):
    return ChatModelInfo(name, "p", name, is_default, unavailable)


def info(*models, rubrics=()):
    return SimpleNamespace(judges=INFO.judges, chat_models=models, rubrics=rubrics)


def offer(kind, profile, **defaults):
    parameters = [ParameterInfo(name, value, "", "") for name, value in defaults.items()]
    return JudgeInfo(kind, profile, "", 0.5, parameters, "", "")


INFO = SimpleNamespace(
    judges=[
        offer("token_overlap", "classic", min_tokens=2, query_boost=True),
        offer(
            "llm",
            "",
            model="",
            rubric="retrieval_match",
            samples=0,
            temperature=0.0,
            max_tokens=256,
        ),
        offer("panel", "majority"),
        offer("exact", "verbatim"),
        offer("answers", "", model="", samples=0),
    ]
)


@pytest.mark.parametrize(
    ("kind", "profile", "signature", "flags"),
    [
        (
            "token_overlap",
            "classic",
            "token_overlap|profile:classic|min_tokens:3|query_boost:true|min_score:0.6|v1",
            "--judge token_overlap --profile classic --param min_tokens=3",
        ),
        (
            "llm",
            "",
            "llm|rubric:retrieval_match@1|model:small|samples:3|temperature:0|max_tokens:99|v1",
            "--judge llm --judge-model small --judge-samples 3 --judge-max-tokens 99",
        ),
        (
            "llm",
            "",
            "llm|rubric:ours@4|sha:3b70145c|model:small|temperature:0.5|v1",
            "--judge llm --param rubric=ours --judge-model small --judge-temperature 0.5",
        ),
        ("gone", "", "gone|size:3|v1", "--judge gone"),
    ],
)
def test_flags_follow_from_the_signature(kind, profile, signature, flags):
    judge = JudgeIdentity(kind, profile, 0.5, signature, "", "")
    assert " ".join(judge_flags(judge, SimpleNamespace(info=INFO))) == flags


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("judge c.jsonl --judge none", "judged judge c.jsonl --judge llm --trace t"),
        ("judge c.jsonl --judge=none --trace t", "judged judge c.jsonl --trace t --judge llm"),
        ("judge c.jsonl --no-judge --trace=t", "judged judge c.jsonl --trace=t --judge llm"),
        ("judge c --trace t --trace-judge x", "judged judge c --trace t --judge llm"),
        ("judge c --trace t --trace-judge=x", "judged judge c --trace t --judge llm"),
        ("judge none --no-judge", "judged judge none --judge llm --trace t"),
        # With it the command would ask nobody again.
        ("score a --no-judge --cache-only", "judged score a --judge llm --trace t"),
    ],
)
def test_the_command_is_this_one_with_a_judge(monkeypatch, given, says):
    monkeypatch.setattr(sys, "argv", ["judged", *given.split()])
    assert command(["--judge", "llm"], "t") == says


def test_the_command_can_be_pasted(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["judged", "judge", "my file.jsonl", "--no-judge"])
    assert command([], None) == "judged judge 'my file.jsonl'"


class TestPanel:
    """A signature has the kinds and the beginnings of the fingerprints of a panel's members."""

    def flags(self, members):
        def judge(groups, spec, asking):
            assert groups[0].n_retrieved == 0  # so that nobody is asked
            if spec.parameters.get("model") == "keyless":
                raise FailedPrecondition("no key")
            name = "/".join([spec.kind, spec.profile, *map(str, spec.parameters.values())])
            return SimpleNamespace(judge=SimpleNamespace(fingerprint=f"{name:_<8}"))

        client = SimpleNamespace(judge=judge)
        server = SimpleNamespace(info=info(model("keyless"), model("big")), client=client)
        panel = judged_by(f"panel|profile:majority|members:{members}|v1", profile="majority")
        return " ".join(judge_flags(panel, server))

    @pytest.mark.parametrize(
        ("members", "flags"),
        [
            ("exact/exact/ve,llm/llm//big", "exact/verbatim --member llm:model=big"),
            ("exact/exact/ve*3,llm/llm//big*1", "exact/verbatim:weight=3 --member llm:model=big"),
            (
                "llm/llm//big*2.5,exact/exact/ve*1",
                "llm:weight=2.5,model=big --member exact/verbatim",
            ),
            ("llm/0123abcd,exact/exact/ve", "llm:NAME=VALUE --member exact/verbatim"),
            ("llm/0123abcd*2,exact/exact/ve", "llm:weight=2,NAME=VALUE --member exact/verbatim"),
        ],
    )
    def test_members_are_found_where_they_judge_by_defaults(self, members, flags):
        assert self.flags(members) == f"--judge panel --profile majority --member {flags}"

    def test_what_the_trace_does_not_tell_is_said(self):
        said = before_asking(judged_by("panel|v1"), info(), ["--member", "llm:weight=2,NAME=VALUE"])
        assert said == (
            "the trace does not tell how llm judged: say it in place of NAME=VALUE; then "
        )


class TestBeforeAsking:
    @pytest.mark.parametrize(
        ("models", "said"),
        [
            ([model("small")], ""),
            ([model("small", "set KEY")], "language model 'small' can't be asked: set KEY; then "),
            (
                [model("other")],
                (
                    "this server has no language model 'small': start the server with --llm-config "
                    "FILE, where FILE names it; then "
                ),
            ),
        ],
    )
    def test_the_model_must_be_there(self, models, said):
        assert before_asking(judged_by(LLM), info(*models), []) == said

    @pytest.mark.parametrize("judge", [None, judged_by("exact|v1"), judged_by("semantic|model:m")])
    def test_others_need_nothing(self, judge):
        assert before_asking(judge, info(), []) == ""


@pytest.mark.parametrize(
    ("models", "name"),
    [
        ([model("a"), model("b", is_default=True)], "b"),
        ([model("a"), model("b", "set KEY", is_default=True)], "a"),
        ([model("a", "set KEY")], "NAME"),
    ],
)
def test_where_no_judge_was_named_a_model_is_that_can_be_asked(models, name):
    assert any_judge(info(*models)) == ["--judge", "llm", "--judge-model", name]


class TestBar:
    RUBRICS = (RubricInfo("retrieval_match", "1", "", 0.7, ""),)

    @pytest.mark.parametrize(
        ("judge", "flags"),
        [
            (judged_by(LLM, 0.7), []),
            (judged_by(LLM, 0.5), ["--min-score", "0.5"]),
            (judged_by("exact|profile:verbatim|v1", 0.5, "verbatim"), []),
            (judged_by("exact|profile:verbatim|v1", 0.9, "verbatim"), ["--min-score", "0.9"]),
        ],
    )
    def test_is_said_where_it_is_not_the_default(self, judge, flags):
        assert threshold_flag(judge, info(rubrics=self.RUBRICS)) == flags


@pytest.mark.parametrize(
    ("weights", "flags"),
    [
        ("a=0.75,b=0.25", "--judge-model small"),
        ("a=0.5,b=0.5", "--judge-model small --weights a=0.5,b=0.5"),
    ],
)
def test_weights_are_said_where_they_are_not_the_rubrics_own(weights, flags):
    rubric = RubricInfo("r", "1", "", 0.7, "", dimensions={"a": 3, "b": 1})
    judge = judged_by(f"answers|rubric:r@1|model:small|weights:{weights}|v1")
    assert " ".join(score_flags(judge, info(rubrics=[rubric]))) == flags
