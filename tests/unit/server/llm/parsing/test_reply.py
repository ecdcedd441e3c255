"""Replies of many models, well-meant, broken and hostile, and what each one means."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from time import thread_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Status
from judged_server.llm.chat import ChatReply, FinishReason, TokenUsage
from judged_server.llm.parsing import MAX_CHARACTERS, read
from judged_server.llm.rubrics.rubric import load_builtin

RUBRIC = load_builtin()["retrieval_match"]
SCORED = replace(RUBRIC, scored=True)
CORPUS = [
    json.loads(line)
    for line in (Path(__file__).parents[4] / "data" / "llm_replies.jsonl").read_text().splitlines()
]


def parsed(text, form="plain", finish=FinishReason.STOP, refusal=None):
    reply = ChatReply(text, finish, TokenUsage(), "m", refusal=refusal)
    return read(reply, SCORED if form == "scored" else RUBRIC, structured=form != "plain")


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


def test_the_replies_in_the_docs_mean_what_is_written_there():
    page = (Path(__file__).parents[5] / "docs" / "rubrics.md").read_text()
    rows = re.findall(r"^\| `(.+?)` \| (?:`\w+`, `(\w+)`|(yes|no)) ?[|:;]?", page, re.MULTILINE)
    assert len(rows) == 10
    for text, reason, verdict in rows:
        found = parsed(text, "structured" if text.startswith("{") else "plain")
        assert (found.reason and found.reason.value) == (reason or None), text
        assert not verdict or found.yes == (verdict == "yes"), text


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30))
def test_reasoning_can_not_change_the_verdict(reasoning):
    for verdict in ("yes", "no"):
        text = f"It says {reasoning}"
        found = parsed(json.dumps({"reasoning": text, "verdict": verdict}), "structured")
        assert (found.status, found.yes) == (Status.OK, verdict == "yes")
        assert found.reasoning == text


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
        parsed(text, form)
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
