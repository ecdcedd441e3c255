"""Strictness: what no other test of replies shows about JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.domain import Status
from judged_server.llm.parsing import json_reply
from judged_server.llm.rubrics.loading import load_builtin

RUBRIC = load_builtin()["retrieval_match"]


def scored(score: str):
    text = f'{{"reasoning": "x", "verdict": "yes", "score": {score}}}'
    return json_reply.read(text, replace(RUBRIC, scored=True))


@given(st.floats(0, 1))
def test_every_score_in_range_is_kept_to_the_bit(score):
    assert scored(json.dumps(score)).score == score


@given(st.floats().filter(lambda score: not 0 <= score <= 1))
def test_no_other_score_is_clamped(score):
    assert scored(json.dumps(score)).status is Status.ERROR


def test_a_negative_zero_is_a_zero():
    assert str(scored("-0.0").score) == "0.0"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "not an object"),
        ('{"reasoning": ""}', "verdict is missing"),
        ('{"verdict": "yes"}', "reasoning is missing"),
        ('{"reasoning": "", "verdict": "yes", "x": 1}', "more keys"),
        ('{"reasoning": "", "verdict": "true"}', 'not "yes" or "no"'),
        ('{"reasoning": 1, "verdict": "yes"}', "not a string"),
        ('{"reasoning": "\\udc00", "verdict": "yes"}', "lone surrogate"),
        ('{"verdict": "no", "verdict": "yes"}', "a key occurs twice"),
        ('{"reasoning": NaN}', "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ('{"reasoning": ' + "9" * 10_000 + "}", "not one JSON object"),
    ],
)
def test_the_message_names_the_rule(text, problem):
    found = json_reply.read(text, RUBRIC)
    assert found.status is Status.ERROR
    assert problem in found.message
