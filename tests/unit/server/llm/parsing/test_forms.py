"""Replies to rubrics that ask for scores, dimensions and claims, and what each one means."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import ClaimVerdict, Status
from judged_server.llm.chat import ChatReply, FinishReason, ParsedReply, Reason, TokenUsage
from judged_server.llm.parsing import read
from judged_server.llm.rubrics.rubric import Rubric, load_builtin

from tests.fuzz.targets import check_reply

ASKED = {step.id: step for rubric in load_builtin().values() for step in rubric.steps}
SCORE = ASKED["answer_relevance"]
GRADE = ASKED["graded_relevance"]
CHECK = ASKED["faithfulness_verification"]
FORMS = [
    SCORE, ASKED["answer_quality"], ASKED["faithfulness_extraction"], CHECK, ASKED["answer_match"],
    GRADE,
]  # fmt: skip
CORPUS = [
    json.loads(line)
    for line in (Path(__file__).parents[4] / "data" / "llm_replies_of_forms.jsonl")
    .read_text()
    .splitlines()
]


def parsed(
    text: str,
    rubric: Rubric,
    structured: bool = True,
    finish: FinishReason = FinishReason.STOP,
    refusal: str | None = None,
) -> ParsedReply:
    return read(
        ChatReply(text, finish, TokenUsage(), "m", refusal=refusal), rubric, structured=structured
    )


def said(found: ParsedReply, form: str) -> object:
    """What a parsed reply says, in the words of the corpus."""
    if found.dimensions:
        scores = dict(found.dimensions)
        return {"overall": scores.pop("overall"), "scores": scores}
    if found.checked is not None:
        return [found.checked.name, found.reasoning]
    return list(found.claims) if form == "extraction" else found.score


@pytest.mark.parametrize("rubric", sorted({case["rubric"] for case in CORPUS}))
def test_recorded_replies(rubric: str, subtests: pytest.Subtests):
    for place, case in enumerate(CORPUS):
        if case["rubric"] == rubric:
            with subtests.test(case["note"], place=place):
                means_what_is_recorded(case)


def means_what_is_recorded(case: dict[str, Any]) -> None:
    found = parsed(
        case["reply"],
        ASKED[case["rubric"]],
        case["structured"],
        FinishReason[case["finish_reason"]],
        case.get("refusal"),
    )
    outcome = (found.status.name, found.reason and found.reason.value)
    assert outcome == (case["status"], case["reason"]), case["note"]
    if found.status is Status.OK:
        assert said(found, ASKED[case["rubric"]].form) == case["says"], case["note"]
        assert found.message == ""
    else:
        assert found.message
        assert (found.dimensions, found.claims, found.checked) == ({}, (), None)


@pytest.mark.parametrize("grade", ["2", " 2.", 2])
def test_a_grade_is_a_share_of_its_scale(grade: object):
    found = parsed(json.dumps({"reasoning": "x", "grade": grade}), GRADE)
    assert (found.status, found.score, found.yes) == (Status.OK, 2 / 3, True)


@pytest.mark.parametrize("grade", ["4", -1, 2.0, True, None, "two", [2], "", "2/3", int("9" * 99)])
def test_a_grade_off_its_scale_is_an_error(grade: object):
    found = parsed(json.dumps({"reasoning": "x", "grade": grade}), GRADE)
    assert (found.status, found.reason) == (Status.ERROR, Reason.SCHEMA)
    assert "grade is none of 0, 1, 2, 3" in found.message


@pytest.mark.parametrize(("score", "passes"), [(0.7, True), (0.7 - 1e-12, True), (0.6999, False)])
def test_a_score_is_a_yes_from_the_bar_on(score: float, passes: bool):
    reply = json.dumps({"reasoning": "x", "score": score})
    assert parsed(reply, SCORE).yes is passes
    assert parsed(reply, replace(SCORE, min_score=0.99)).yes is False
    assert parsed(reply, replace(SCORE, min_score=0.0)).yes is True


rubrics = st.sampled_from(FORMS)
keys = st.sampled_from(sorted({key for rubric in FORMS for key in rubric.properties} | {"x"}))
json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.floats(0, 1), st.text(max_size=5),
        st.sampled_from(["yes", "no", *ClaimVerdict.__members__]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=8)
    ),
    max_leaves=8,
)  # fmt: skip


def keeps(value: object, rubric: Rubric) -> bool:
    """Say whether JSON keeps a rubric's schema, told apart by the schema alone."""
    if not isinstance(value, dict) or set(value) != set(rubric.properties):
        return False
    properties: Mapping[str, Mapping[str, Any]] = rubric.properties
    for key, held in properties.items():
        found = value[key]
        match held["type"]:
            case "string":
                fits = isinstance(found, str) and found in held.get("enum", [found])
            case "number":
                fits = type(found) in (int, float) and 0 <= found <= 1
            case _:
                fits = isinstance(found, list) and all(
                    isinstance(item, str) and item.strip() for item in found
                )
        if not fits:
            return False
    return True


@given(rubrics, st.booleans(), st.data())
def test_json_says_something_exactly_when_it_keeps_the_schema(rubric, structured, data):
    held = st.fixed_dictionaries(
        {key: st.one_of(json_values, good(value)) for key, value in rubric.properties.items()}
    )
    value = data.draw(st.one_of(held, json_values))
    said = ChatReply(json.dumps(value), FinishReason.STOP, TokenUsage(), "m")
    found = check_reply(said, rubric, structured=structured)
    if isinstance(value, dict):
        assert (found.status is Status.OK) == keeps(value, rubric)
        assert found.reason in {None, Reason.SCHEMA}


def good(held: dict[str, Any]) -> st.SearchStrategy[object]:
    """Values that a JSON schema of one key allows."""
    if "enum" in held:
        return st.sampled_from(held["enum"])
    if held["type"] == "number":
        return st.floats(0, 1)
    text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=9)
    return text if held["type"] == "string" else st.lists(text, max_size=3)


@pytest.mark.parametrize("rubric", FORMS, ids=lambda rubric: rubric.form)
def test_json_cut_at_any_place_is_an_error(rubric):
    whole = json.dumps({key: example(value) for key, value in rubric.properties.items()})
    assert parsed(whole, rubric).status is Status.OK
    for end in range(len(whole)):
        for finish, reason in (
            (FinishReason.STOP, Reason.SCHEMA),
            (FinishReason.LENGTH, Reason.REPLY_TRUNCATED),
        ):
            found = parsed(whole[:end], rubric, finish=finish)
            assert (found.status, found.reason) == (Status.ERROR, reason)


def example(held: dict[str, Any]) -> object:
    match held:
        case {"enum": [first, *_]}:
            return first
        case {"type": "string"}:
            return 'It says "1932", {and} more.'
        case {"type": "number"}:
            return 0.75
    return ["It opened in 1932.", "It is in Sydney."]
