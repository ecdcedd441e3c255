"""What a rubric knows about itself."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from judged_server.llm.rubrics import load_builtin

RUBRIC = load_builtin()["retrieval_match"]


@pytest.mark.parametrize("rubric", load_builtin().values(), ids=lambda rubric: rubric.id)
def test_every_built_in_rubric_declares_its_side(rubric):
    assert rubric.fails_closed in {"yes", "no"}
    assert rubric.version >= 1
    assert rubric.description
    assert 0 <= rubric.min_score <= 1
    assert "{{" not in rubric.structured_system + rubric.plain_system


def test_relevance_fails_to_no():
    assert RUBRIC.fails_closed == "no"
    assert RUBRIC.fields == ("query", "expected_text", "retrieved_text")


def test_the_hash_covers_all_that_can_change_a_score_and_nothing_else():
    free = {"description": "other", "min_score": 0.1, "fails_closed": "yes"}
    bound = {"id": "x", "version": 9, "scored": True} | dict.fromkeys(
        ("system", "user", "structured_answer", "plain_answer"), "other"
    )
    assert set(free) | set(bound) == {field.name for field in fields(RUBRIC)}
    for name, value in free.items():
        assert replace(RUBRIC, **{name: value}).sha256 == RUBRIC.sha256
    hashes = {replace(RUBRIC, **{name: value}).sha256 for name, value in bound.items()}
    assert len(hashes | {RUBRIC.sha256}) == len(bound) + 1


def test_the_schema_is_flat_and_closed():
    schema = RUBRIC.schema.schema
    assert RUBRIC.schema.name == "retrieval_match"
    assert list(schema["properties"]) == schema["required"] == ["reasoning", "verdict"]
    assert schema["additionalProperties"] is False
    scored = replace(RUBRIC, scored=True).schema.schema
    assert scored["required"] == ["reasoning", "verdict", "score"]


def test_each_way_to_answer_stands_in_its_own_instructions():
    assert '"verdict"' in RUBRIC.structured_system
    assert "YES or NO" in RUBRIC.plain_system
    assert "YES or NO" not in RUBRIC.structured_system
