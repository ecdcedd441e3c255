"""The key of a question: equal for equals, another for everything that can change a reply."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.chat import ChatModelCard, Prices
from judged_server.llm.question import Question, question_key
from judged_server.llm.rubrics.rubric import load_builtin

CARD = ChatModelCard("small", "p", "openai", "gpt", True, None, "at home")
RUBRIC = load_builtin()["retrieval_match"]
TEXTS = {"query": "q", "expected_text": "e", "retrieved_text": "r"}

texts = st.text(st.characters(), max_size=4)
values = texts | st.lists(texts, max_size=4)


def asked(rubric=RUBRIC, fields=TEXTS, number=0, temperature=0.0, max_tokens=256):
    return Question(rubric, fields, number, temperature, max_tokens)


def showing(*names):
    """A rubric that shows these fields."""
    rubric = replace(RUBRIC)
    vars(rubric)["fields"] = names
    return rubric


def test_equal_questions_have_one_key_of_32_bytes():
    assert question_key(CARD, asked()) == question_key(replace(CARD), asked(fields=dict(TEXTS)))
    assert len(question_key(CARD, asked())) == 32


def keyed(card=(), rubric=(), how=()) -> bytes:
    return question_key(
        replace(CARD, **dict(card)), asked(replace(RUBRIC, **dict(rubric)), **dict(how))
    )


CHANGES: dict[str, dict[str, Any]] = {
    "card": {
        "provider": "other", "dialect": "gemini", "model": "gpt-2", "structured": False,
        "conditions": "abroad",
    },
    "rubric": {
        "id": "other", "version": 2, "scored": True, "system": "other {{answer}}",
        "user": RUBRIC.user + " Please.", "structured_answer": "other", "plain_answer": "other",
    },
    "how": {"number": 1, "temperature": 0.1, "max_tokens": 255},
}  # fmt: skip


def test_everything_that_can_change_a_reply_changes_the_key():
    changes = [(of, change) for of, all_of in CHANGES.items() for change in all_of.items()]
    keys = {keyed(**{of: [change]}) for of, change in changes}
    assert len({keyed(), *keys}) == 1 + len(changes)


def test_names_prices_and_what_is_read_off_later_do_not():
    card, rubric = {"name": "alias", "prices": Prices(1, 2)}, {"min_score": 0.9, "description": "d"}
    assert keyed(card, rubric) == keyed()


@pytest.mark.parametrize("version", ["PROMPT_VERSION", "PARSER_VERSION"])
def test_a_new_form_of_prompts_or_of_reading_changes_the_key(version, monkeypatch):
    from judged_server.llm import question as module

    before = question_key(CARD, asked())
    monkeypatch.setattr(module, version, 999)
    assert question_key(CARD, asked()) != before


@given(values, values, values, values)
def test_only_equal_texts_and_lists_share_a_key(first, second, other_first, other_second):
    rubric = showing("contexts", "references")
    one = asked(rubric, {"contexts": first, "references": second})
    two = asked(rubric, {"contexts": other_first, "references": other_second})
    same = (first, second) == (other_first, other_second)
    assert (question_key(CARD, one) == question_key(CARD, two)) is same


@given(st.lists(texts, min_size=1, max_size=4), st.data())
def test_a_list_is_neither_its_joined_text_nor_cut_elsewhere(parts, data):
    rubric = showing("contexts")
    whole = "".join(parts)
    at = data.draw(st.integers(0, len(whole)))
    cut = [whole[:at], whole[at:]]
    keys = {
        repr(value): question_key(CARD, asked(rubric, {"contexts": value}))
        for value in (parts, cut, whole, [whole], repr(parts))
    }
    assert len(set(keys.values())) == len(keys)
