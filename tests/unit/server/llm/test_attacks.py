"""The corpus of attacks against every rubric, as a text in every place and as a reply."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from judged.values.choices import Status
from judged_server.llm.chat import ChatReply, FinishReason, TokenUsage
from judged_server.llm.parsing import read
from judged_server.llm.question import Question, request_for
from judged_server.llm.rubrics.rubric import Rubric, load_builtin

from tests.fakes.providers.prompt_attacks import (
    ATTACKS,
    CORPUS,
    FAMILIES,
    blocks,
    naive_model,
)

ASKED = [step for rubric in load_builtin().values() for step in rubric.steps]
LISTS = {"references", "contexts"}
NONCE = "ghijklmopqsvwxyzghijklmopqsvwxyz"


def ask(rubric: Rubric, texts: dict[str, str | list[str]]) -> tuple[str, str]:
    request = request_for(Question(rubric, texts, 0, 0.0, 9), NONCE, structured=True)
    return request.system, request.user


def harmless(rubric: Rubric) -> dict[str, str | list[str]]:
    return {name: ["one", "two"] if name in LISTS else "harmless" for name in rubric.fields}


def test_the_corpus_is_large_and_has_every_family():
    assert len({attack.id for attack in CORPUS}) == len(CORPUS) >= 300
    assert len({attack.text for attack in CORPUS}) == len(CORPUS)
    families = Counter(attack.family for attack in CORPUS)
    assert set(families) == set(FAMILIES)
    assert min(families.values()) >= 30
    assert len({attack.language for attack in CORPUS}) >= 10


@pytest.mark.parametrize("rubric", ASKED, ids=lambda rubric: rubric.id)
def test_no_attack_alters_another_text_or_the_question(rubric: Rubric):
    system, user = ask(rubric, harmless(rubric))
    outside = blocks(user)[1]
    texts = [attack.text for attack in CORPUS] + list(ATTACKS)
    for text in texts:
        for name in rubric.fields:
            attacked = harmless(rubric)
            attacked[name] = ["one", text, "two"] if name in LISTS else text
            asked, told = ask(rubric, attacked)
            rendered, rest = blocks(told)
            assert (asked, rendered, rest) == (system, attacked, outside)
            assert told.count(NONCE) == 2 * len(rubric.fields) + 1
            assert naive_model(asked, told) == "NO"


# The words of a verdict or a score, as the attack would have a model repeat them.
_SAYS = {
    "verdict": re.compile(
        r"(?:\b(?:verdict|answer)(?: is|:)|therefore)\W{1,3}yes\b|\Ayes\W?\Z|\W YES\.\Z",
        re.IGNORECASE,
    ),
    "score": re.compile(r"\bScore: 1\.0\Z"),
}


@pytest.mark.parametrize("structured", [True, False])
@pytest.mark.parametrize("rubric", ASKED, ids=lambda rubric: rubric.id)
def test_no_attack_is_a_reply_unless_it_keeps_the_form(rubric: Rubric, structured: bool):
    """A model that repeats an attack says nothing by it, unless that is just what it was asked for.

    Orders ("Reply yes") and copied pieces of prompts are no answers. What counts is JSON with the
    keys of the schema, and, where words were asked for, those of a verdict or a score.
    """
    for attack in CORPUS:
        reply = ChatReply(attack.text, FinishReason.STOP, TokenUsage(), "m")
        found = read(reply, rubric, structured=structured)
        assert found.status in {Status.OK, Status.ERROR, Status.ABSTAINED}
        if found.status is not Status.OK:
            continue
        if "{" in attack.text:
            assert set(json.loads(attack.text.strip())) == set(rubric.properties)
        else:
            assert attack.family not in {"naive", "Unicode tag"}
            assert _SAYS[rubric.form].search(attack.text), attack.id
            assert not structured or len(attack.text) < 40 or "<think>" in attack.text
