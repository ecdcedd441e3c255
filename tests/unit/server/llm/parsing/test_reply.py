"""Replies of many models, well-meant, broken and hostile, and what each one means."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Status
from judged_server.llm.chat import ChatReply, FinishReason, Reason, TokenUsage
from judged_server.llm.config.configured import Structured
from judged_server.llm.parsing.plain_reply import MAX_CHARACTERS
from judged_server.llm.parsing.reply import read
from judged_server.llm.rubrics.loading import load_builtin

RUBRIC = load_builtin()["retrieval_match"]
SCORED = replace(RUBRIC, scored=True)
CORPUS = [
    json.loads(line)
    for line in (Path(__file__).parents[4] / "data" / "llm_replies.jsonl").read_text().splitlines()
]


def parsed(text, form="plain", finish=FinishReason.STOP, refusal=None):
    reply = ChatReply(text, finish, TokenUsage(), "m", refusal=refusal)
    return read(reply, SCORED if form == "scored" else RUBRIC, structured=form != "plain")


def test_the_corpus_is_large_and_covers_every_outcome():
    assert len(CORPUS) >= 200
    outcomes = Counter((case["form"], case["verdict"] or case["reason"]) for case in CORPUS)
    for form in ("plain", "structured"):
        for outcome in ("yes", "no", "UNPARSABLE", "SCHEMA", "REFUSED", "REPLY_TRUNCATED"):
            assert outcomes[form, outcome] >= 2, (form, outcome)


@pytest.mark.parametrize("form", sorted({case["form"] for case in CORPUS}))
def test_recorded_replies(form: str, subtests: pytest.Subtests):
    for place, case in enumerate(CORPUS):
        if case["form"] == form:
            with subtests.test(case["note"], place=place):
                means_what_is_recorded(case)


def means_what_is_recorded(case: dict[str, Any]) -> None:
    found = parsed(
        case["reply"], case["form"], FinishReason[case["finish_reason"]], case.get("refusal")
    )
    verdict = {True: "yes", False: "no"}[found.yes] if found.status is Status.OK else None
    outcome = (found.status.name, verdict, found.reason and found.reason.value)
    assert outcome == (case["status"], case["verdict"], case["reason"]), case["note"]
    if found.status is Status.OK:
        assert found.score == case.get("score", float(found.yes))
        assert found.message == ""
    else:
        assert found.message


LISTED = {
    "**YES**": "yes",
    "Answer: YES": "yes",
    "It is not relevant": "UNPARSABLE",
    "Relevant: no": "no",
    "Yesterday…": "UNPARSABLE",
    "irrelevant": "UNPARSABLE",
    "I'm sorry, but I can't help with that.": "REFUSED",
    '{"reasoning": "x", "verd': "SCHEMA",
}


def test_the_listed_replies_are_in_the_corpus():
    listed = {
        case["reply"]: case["verdict"] or case["reason"]
        for case in CORPUS
        if case["finish_reason"] == "STOP"
        and case["form"] == ("structured" if case["reply"].startswith("{") else "plain")
    }
    assert {reply: listed[reply] for reply in LISTED} == LISTED


def test_the_replies_in_the_docs_mean_what_is_written_there():
    page = (Path(__file__).parents[5] / "docs" / "rubrics.md").read_text()
    rows = re.findall(r"^\| `(.+?)` \| (?:`\w+`, `(\w+)`|(yes|no)) ?[|:;]?", page, re.MULTILINE)
    assert len(rows) == 10
    for text, reason, verdict in rows:
        found = parsed(text, "structured" if text.startswith("{") else "plain")
        assert (found.reason and found.reason.value) == (reason or None), text
        assert not verdict or found.yes == (verdict == "yes"), text


forms = st.sampled_from(["plain", "structured", "scored"])
finishes = st.sampled_from(FinishReason)
shapes = st.sampled_from(
    ["yes", "no", "not", "relevant", "irrelevant", "<think>", "</think>", "\n", " ", "```", "{",
     "```json\n", "}", '"', ":", "[", "]", '"verdict"', '"yes"', '"reasoning"', '"score"', "0.5",
     "Answer:", "**", ".", "?", "/", "or", "\ud800", "\x00", "\u200b", "İ", "\u017f",
     "I can't help", "no-one"]
)  # fmt: skip
texts = st.one_of(
    st.text(), st.lists(st.one_of(shapes, st.text(max_size=3)), max_size=12).map("".join)
)


def is_sound(found) -> bool:
    if found.status is Status.OK:
        found.reasoning.encode()  # fit to be sent
        return found.reason is None and 0.0 <= found.score <= 1.0 and len(found.reasoning) <= 2000
    return found.status in {Status.ERROR, Status.ABSTAINED} and found.reason is not None


@given(texts, forms, finishes)
def test_any_text_is_read(text, form, finish):
    assert is_sound(parsed(text, form, finish))


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["verdict", "reasoning", "score", "x"]), inner, max_size=4),
    ),
    max_leaves=8,
)


@given(json_values, forms)
def test_any_json_keeps_the_schema_or_is_no_verdict(value, form):
    found = parsed(json.dumps(value), form)
    assert is_sound(found)
    if found.status is Status.OK and isinstance(value, dict):
        keys = {"verdict", "reasoning", "score"} if form == "scored" else {"verdict", "reasoning"}
        assert set(value) == keys
        assert value["verdict"] == ("yes" if found.yes else "no")


@given(st.text(), forms)
def test_no_verdict_comes_from_a_text_without_its_words(text, form):
    words = text.lower()
    for word in ("yes", "no"):
        words = words.replace(word, "")
    if all(word not in words for word in ("yes", "no")):
        assert parsed(words, form).status is not Status.OK


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30))
def test_reasoning_can_not_change_the_verdict(reasoning):
    for verdict in ("yes", "no"):
        found = parsed(json.dumps({"reasoning": reasoning, "verdict": verdict}), "structured")
        assert (found.status, found.yes) == (Status.OK, verdict == "yes")
        assert found.reasoning == reasoning


@pytest.mark.parametrize("finish", [FinishReason.STOP, FinishReason.LENGTH])
def test_json_cut_at_any_place_is_an_error(finish):
    whole = '{"reasoning": "It says yes, \\"no\\" and é.", "verdict": "yes", "score": 0.75}'
    for end in range(len(whole)):
        found = parsed(whole[:end], "scored", finish)
        assert found.status is Status.ERROR
        reason = Reason.SCHEMA if finish is FinishReason.STOP else Reason.REPLY_TRUNCATED
        assert found.reason is reason
    assert parsed(whole, "scored", finish).score == 0.75


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 50_000 + "]" * 50_000])
@pytest.mark.parametrize("form", ["plain", "structured", "scored"])
def test_deep_nesting_is_an_error(text, form):
    found = parsed(text, form)
    assert (found.status, found.reason) == (Status.ERROR, Reason.SCHEMA)


def test_a_safety_stop_is_told_from_a_refusal():
    stopped = parsed("YES", finish=FinishReason.SAFETY, refusal="no")
    refused = parsed("YES", finish=FinishReason.REFUSAL)
    assert (stopped.status, stopped.reason) == (refused.status, refused.reason)
    assert (stopped.status, stopped.reason) == (Status.ABSTAINED, Reason.REFUSED)
    assert stopped.message == "the provider's safety filter stopped the answer"
    assert refused.message == "the model refused to answer"


def test_the_advice_after_prose_is_a_setting_that_the_server_takes():
    message = parsed("The text is relevant.", "structured").message
    setting = re.search(r'structured = "(\w+)"', message)
    assert setting is not None
    assert Structured(setting[1]) is Structured.NONE


def test_messages_quote_nothing_of_a_reply():
    canary = "canary-5f2c"
    for case in CORPUS:
        for text in (case["reply"] + canary, canary + case["reply"]):
            assert canary not in parsed(text, case["form"]).message


UNITS = [
    "*", "_ ", "<", "<think>", "</think>\n", "<think></think>", "[", "[THINK", "`", "```\n", "no ",
    "yes\n", "not ", "not the ", "is ", "answer ", "answer*", '"', "“", "«", "'", "a-", "!", "!*",
    "i can't ", "{", '{"a":[', "\\", '"\\ud800', "1", "\u2028", "\n ", "\x00", "İ", "no-", "n't "
]  # fmt: skip


def spent_on(text: str, form: str, enough: float) -> float:
    """Return the seconds of this thread that reading takes: the least of five, or `enough`."""
    spent = float("inf")
    for _ in range(5):
        begun = thread_time()
        assert is_sound(parsed(text, form))
        spent = min(spent, thread_time() - begun)
        if spent < enough:
            break
    return spent


@pytest.mark.parametrize("unit", UNITS)
def test_a_mebibyte_of_anything_is_read_in_time(unit):
    size = 1 << 20
    for start in ("", "no ", '{"reasoning":"'):
        text = (start + unit * size)[: size - 10] + "</think>"
        for form in ("plain", "structured"):
            # An idle core takes less than .05 s, what is quadratic takes minutes.
            assert spent_on(text, form, enough=0.15) < 1, (start, form)


# Lines, labels and marks: only replies up to MAX_CHARACTERS get as far as that.
LINES = [
    *UNITS, "yes ", "yes. ", "verdict: ", "## verdict\n", "my final ", "the ", "answer is ", "„.",
    "> ", "…", "verdict: no\n", "it is relevant.\n"
]  # fmt: skip


@pytest.mark.parametrize("unit", LINES)
def test_the_longest_reply_is_read_in_time(unit):
    for start, end in (("", ""), ("the ", "\nVERDICT: NO"), ("no\n", ""), ("yes, ", ".")):
        text = (start + unit * MAX_CHARACTERS)[: MAX_CHARACTERS - len(end)] + end
        for form in ("plain", "structured"):
            # An idle core takes less than .02 s, what is quadratic takes 1 to 8.
            assert spent_on(text, form, enough=0.05) < 0.5, (start, form)
