"""The command that gets a missing judgement: this one, with the judge that was recorded."""

import sys
from types import SimpleNamespace

import pytest
from judged import JudgeIdentity, JudgeInfo, ParameterInfo
from judged.cli.replaying import command, judge_flags


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
    assert " ".join(judge_flags(judge, INFO)) == flags


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("judge c.jsonl --judge none", "judged judge c.jsonl --judge llm --trace t"),
        ("judge c.jsonl --judge=none --trace t", "judged judge c.jsonl --trace t --judge llm"),
        ("judge c.jsonl --no-judge --trace=t", "judged judge c.jsonl --trace=t --judge llm"),
        ("judge c --trace t --trace-judge x", "judged judge c --trace t --judge llm"),
        ("judge c --trace t --trace-judge=x", "judged judge c --trace t --judge llm"),
        ("judge none --no-judge", "judged judge none --judge llm --trace t"),
    ],
)
def test_the_command_is_this_one_with_a_judge(monkeypatch, given, says):
    monkeypatch.setattr(sys, "argv", ["judged", *given.split()])
    assert command(["--judge", "llm"], "t") == says


def test_the_command_can_be_pasted(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["judged", "judge", "my file.jsonl", "--no-judge"])
    assert command([], None) == "judged judge 'my file.jsonl'"
