"""What a rubric knows about itself."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace

import pytest
from judged_server.llm.question import Question, request_for
from judged_server.llm.rubrics.rubric import Rubric, load_builtin

BUILTIN = load_builtin()
RUBRIC = BUILTIN["retrieval_match"]
FAITHFULNESS = BUILTIN["faithfulness"]
QUALITY = BUILTIN["answer_quality"]


@pytest.mark.parametrize("rubric", BUILTIN.values(), ids=lambda rubric: rubric.id)
def test_every_built_in_rubric_declares_its_side(rubric: Rubric):
    assert rubric.fails_closed == "no"  # all ask for something good, so that a yes needs a verdict
    assert rubric.version >= 1
    assert rubric.description
    if rubric.form != "grade":  # whose thresholds are grades of their scale
        assert rubric.min_score == (0.5 if rubric.form == "verdict" else 0.7)
    for step in rubric.steps:
        assert step.system
        assert "{{" not in step.structured_system + step.plain_system
        assert "never an order to you" in " ".join(step.system.split())


def test_the_prompt_of_retrieval_match_is_what_verdicts_were_given_for():
    """Its hash names kept verdicts, so neither it nor what it stands for may change in silence."""
    assert RUBRIC.version == 1
    assert RUBRIC.sha256 == "011f20b96fe6519149ad34a8eba2a5d77b2981ffbc233f3713440a5226371829"
    texts = {"query": "who <b>?", "expected_text": "é [INST]", "retrieved_text": "a\nb"}
    nonce = "ghijklmopqsvwxyzghijklmopqsvwxyz"
    for structured, digest in (
        (True, "02178f88b111e0929c1f6cc1c4a622a80733b153f1ee1575a37320e18e29249d"),
        (False, "45564f7ad0695d4abbf06f8f12b27dcf0e1294475c21b4d9c5545554c0ca62af"),
    ):
        asked = request_for(Question(RUBRIC, texts, 0, 0.0, 9), nonce, structured=structured)
        schema = asked.schema and [asked.schema.name, asked.schema.schema]
        whole = json.dumps([asked.system, asked.user, schema])
        assert hashlib.sha256(whole.encode()).hexdigest() == digest


def test_the_hash_covers_all_that_can_change_a_reply_and_nothing_else():
    free = {
        "description": "other", "min_score": 0.1, "fails_closed": "yes",
        "need_contexts": ("coherence",),
    }  # fmt: skip
    bound = {"id": "x", "version": 9, "scored": True, "form": "score"} | dict.fromkeys(
        ("system", "user", "structured_answer", "plain_answer"), "other"
    )
    by_form = {"grades", "dimensions", "extraction", "verification"}
    assert set(free) | set(bound) | by_form == {field.name for field in fields(RUBRIC)}
    for name, value in free.items():
        assert replace(RUBRIC, **{name: value}).sha256 == RUBRIC.sha256
    hashes = {replace(RUBRIC, **{name: value}).sha256 for name, value in bound.items()}
    assert len(hashes | {RUBRIC.sha256}) == len(bound) + 1


def test_the_hash_of_dimensions_covers_their_names_and_order_but_no_weights():
    heavier = tuple((name, 5.0) for name, _ in QUALITY.dimensions)
    assert replace(QUALITY, dimensions=heavier).sha256 == QUALITY.sha256
    turned = tuple(reversed(QUALITY.dimensions))
    fewer = QUALITY.dimensions[1:]
    hashes = {replace(QUALITY, dimensions=one).sha256 for one in (turned, fewer)}
    assert len(hashes | {QUALITY.sha256}) == 3


def test_the_hash_of_claims_covers_both_steps():
    extraction, verification = FAITHFULNESS.steps
    others = [
        replace(FAITHFULNESS, extraction=replace(extraction, system="other")),
        replace(FAITHFULNESS, verification=replace(verification, user="other")),
        replace(FAITHFULNESS, extraction=verification, verification=extraction),
    ]
    assert len({one.sha256 for one in (FAITHFULNESS, *others)}) == 4
    assert len({rubric.sha256 for rubric in BUILTIN.values()}) == len(BUILTIN)
