"""Texts of the same words that say different things, and texts that say the same in other ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.domain import Group, JudgeSpec
from judged_server.judges.equivalence.judge import EquivalenceKind
from judged_server.judges.equivalence.words import contradicted, contradicts

FILE = Path(__file__).parents[4] / "data" / "equivalent_answers.jsonl"
PAIRS = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def pairs(*, same: bool) -> list[tuple[str, str]]:
    return [(pair["expected"], pair["answer"]) for pair in PAIRS if pair["same"] is same]


@pytest.mark.parametrize(("expected", "answer"), pairs(same=False))
def test_what_turns_a_text_around(expected: str, answer: str):
    judge = EquivalenceKind().build(JudgeSpec("answer_equivalence"))
    columns = judge.score([Group("", "q", [expected], [answer])])
    assert columns.scores[0] < 0.2
    assert columns.probabilities[0] < 0.2


@pytest.mark.parametrize(("expected", "answer"), pairs(same=True))
def test_what_is_only_written_otherwise(expected: str, answer: str):
    assert not contradicts(expected, answer)
    assert not contradicts(answer, expected)


def test_another_alternative_may_speak_for_an_answer():
    assert contradicted(["-40 degrees"], "40 degrees")
    assert contradicted(["-40 degrees", "freezing"], "40 degrees")
    assert not contradicted(["-40 degrees", "40"], "40 degrees")


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_texts_are_read_and_none_turns_itself_around(one: str, other: str):
    assert not contradicts(one, one)
    contradicts(one, other)
