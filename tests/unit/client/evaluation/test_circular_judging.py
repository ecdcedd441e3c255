"""Families of models by the rules for their names."""

from __future__ import annotations

import pytest
from judged.evaluation import CircularJudging
from judged.evaluation.asking import family_of, warn_circular
from judged.values import ChatModelInfo


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt-4o-2024-08-06", "gpt"),
        ("openai/gpt-5-mini", "gpt"),
        ("claude-sonnet-4-5-20250929", "claude"),
        ("us.anthropic.claude-3-5-sonnet-20241022-v2:0", "claude"),
        ("models/gemini-2.5-flash", "gemini"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama"),
        ("llama3.1:8b", "llama"),
        ("7b-of-nobody", ""),
    ],
)
def test_the_family_is_told_by_the_name(name, family):
    assert family_of(name) == family


def test_a_relative_is_told_and_a_stranger_is_not():
    judges = [ChatModelInfo("", "", name, False, "") for name in ("gpt-5", "claude-1", "gpt-5")]
    with pytest.warns(CircularJudging) as told:
        warn_circular(["gpt-4o", "123"], judges)
    about = "the judge's model gpt-5 is of the family 'gpt', as is that of"
    assert [str(one.message)[: len(about)] for one in told] == [about]
