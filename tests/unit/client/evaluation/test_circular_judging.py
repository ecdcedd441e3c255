"""Families of models by the rules for their names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.evaluation.asking import bare_name, circular_remarks, family_of
from judged.values import ChatModelInfo


def remarks(systems, judges):
    asked = [ChatModelInfo("", "", name, False, "") for name in judges]
    return list(circular_remarks(systems, asked))


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("gpt-4o-2024-08-06", "gpt"),
        ("openai/gpt-5-mini", "gpt"),
        ("o3-mini", "gpt"),
        ("claude-sonnet-4-5-20250929", "claude"),
        ("us.anthropic.claude-3-5-sonnet-20241022-v2:0", "claude"),
        ("models/gemini-2.5-flash", "gemini"),
        ("gemma3:12b", "gemini"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama"),
        ("meta-llama-3-8b", "llama"),
        ("qwq-32b", "qwen"),
        ("mistralai/Mixtral-8x7B-v0.1", "mistral"),
        ("mistral.mistral-large-2407-v1:0", "mistral"),
        ("7b-of-nobody", ""),
    ],
)
def test_the_family_is_told_by_the_name(name, family):
    assert family_of(name) == family


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("gpt-4o", "openai/gpt-4o-2024-08-06"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5-20250929"),
        ("llama3.1", "llama3.1:8b"),
        ("meta-llama/Llama-3.3-70B", "llama-3.3-70b"),
    ],
)
def test_provider_date_and_tag_make_no_other_model(one, other):
    (told,) = remarks([one], [other])
    assert told.startswith(f"the judge's model {other} is that of the system, {one}: models")


def test_a_relative_is_told_and_a_stranger_is_not():
    (told,) = remarks(["gpt-4o"], ["o3-mini", "claude-sonnet-4-5", "gemini-2.5-pro", "o3-mini"])
    assert told.startswith("the judge's model o3-mini is of the family 'gpt', as is that of")
    assert remarks(["123"], ["123"]) == []


@given(st.text())
def test_any_name_has_a_bare_one_that_stays(name):
    assert bare_name(bare_name(name)) == bare_name(name)
    assert family_of(bare_name(name)) == family_of(name)
