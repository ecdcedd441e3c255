"""The flags about asking, and what they say when they can't be followed."""

import pytest
from judged import Asking, CacheMode, Verdicts
from judged.cli.options.asking import (
    AskingFlags,
    ModelFlags,
    named_as_typed,
    refuse_missing,
    with_parameters,
)
from judged.cli.problems import Problem
from judged.values import JudgeIdentity, VerdictError


def verdicts(**errors):
    n = len(errors) + 1
    found = {i: VerdictError(9, reason, "", False) for i, reason in enumerate(errors.values())}
    identity = JudgeIdentity("llm", "", 0.5, "llm|v1", "", "")
    return Verdicts([False] * n, [0.0] * n, [2] * n, [1] * n, [0] * n, [0, n], found, identity)


def test_no_flag_is_the_default_for_every_judge():
    assert AskingFlags().asking(None) is None
    assert AskingFlags().asking("exact") is None


def test_flags_are_modes():
    assert AskingFlags(judge_refresh=True).asking("llm") == Asking(CacheMode.REFRESH)
    assert AskingFlags(cache_only=True).asking("llm") == Asking(CacheMode.ONLY)


def test_members_of_a_panel_may_be_models():
    assert AskingFlags(judge_refresh=True).asking("panel") == Asking(CacheMode.REFRESH)
    assert AskingFlags(cache_only=True).asking("panel") == Asking(CacheMode.ONLY)


@pytest.mark.parametrize(
    ("kind", "refresh", "only", "says"),
    [
        ("llm", True, True, "exclude each other"),
        ("exact", True, False, "--judge-refresh: is for --judge llm, --judge panel and"),
        (None, False, True, "--cache-only: is for --judge llm"),
    ],
)
def test_what_makes_no_sense_is_refused(kind, refresh, only, says):
    with pytest.raises(Problem, match=says):
        AskingFlags(judge_refresh=refresh, cache_only=only).asking(kind)


def test_a_missing_reply_is_a_problem_with_the_next_step():
    with pytest.raises(Problem, match=r"1 of 3 verdicts not in .* without --cache-only"):
        refuse_missing(verdicts(a="NOT_CACHED", b="TIMEOUT"))


def test_other_errors_are_not():
    refuse_missing(verdicts(a="TIMEOUT"))
    refuse_missing(None)


class TestParameters:
    def test_are_those_that_were_given(self):
        given = ModelFlags("small", 3, 0.0).parameters("llm")
        assert given == ["model=small", "samples=3", "temperature=0.0"]
        assert ModelFlags().parameters("exact") == []

    @pytest.mark.parametrize("kind", [None, "exact"])
    def test_are_for_one_judge_only(self, kind):
        with pytest.raises(Problem, match="--judge-max-tokens: is for --judge llm"):
            ModelFlags(judge_max_tokens=9).parameters(kind)

    def test_stand_beside_others(self):
        assert with_parameters(["samples=3"], None) == ["samples=3"]
        assert with_parameters(["samples=3"], ["rubric=r"]) == ["samples=3", "rubric=r"]
        with pytest.raises(Problem, match=r"^--param max_tokens: is given by --judge-max-tokens"):
            with_parameters(["max_tokens=9"], ["max_tokens=8"])


class TestNames:
    @pytest.mark.parametrize(
        ("problem", "named"),
        [
            ("--param max_tokens: must be 1: no", "--judge-max-tokens: must be 1: no"),
            ("--param samples: must be 1", "--param samples: must be 1"),
            ("max_tokens: must be 1", "max_tokens: must be 1"),
            ("out of max_tokens", "out of max_tokens"),
        ],
    )
    def test_are_those_that_were_typed(self, problem, named):
        with pytest.raises(Problem) as caught, named_as_typed(["max_tokens=0"]):
            raise Problem(problem)
        assert str(caught.value) == named
