"""No text gets out of its block, into another one, or lost."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Mapping
from time import thread_time

import pytest
from judged_server.llm.question import Question, data_block, new_nonce, request_for
from judged_server.llm.rubrics.rubric import FieldValue, Rubric, load_builtin

from tests.fakes.providers.prompt_attacks import ATTACKS, blocks, naive_model

RUBRIC = load_builtin()["retrieval_match"]
LISTED = [load_builtin()["answer_match"], load_builtin()["faithfulness"].steps[1]]
LIST_CASES = int(os.environ.get("JUDGED_PROMPT_CASES", "8000"))
"""Prompts with lists that are tried. JUDGED_PROMPT_CASES=100000: as many as with texts alone."""
NONCE = "ghijklmopqsvwxyzghijklmopqsvwxyz"
VISIBLE = re.compile("[\x00-\x1f\x7f-\x9f<>&\u200b-\u200f\u2028-\u202e\ufeff\U000e0000-\U0010ffff]")

# What a text that wants out would be made of.
PIECES = (
    *'"\\<>&/={}[]\n\r\t\x00\x1b\x7f\x85\u00ad\u200b\u200d\u2028\u2029\u202e\u2066\ufeff\uffff',
    "\ufffe", "\ue000", "\U000e0041", "\U0010ffff", "\uff1c", "\uff1e", "\uff02", "\uff3c",
    "\\u003c", "\\u", "\\\\", '\\"', '"\n', "data-", "</data-", f"</data-{NONCE}>", NONCE,
    NONCE[1:], NONCE[:-1], f'<data-{NONCE} name="query">', "{{query}}", "{{nonce}}",
    "{{retrieved_text}}", "<|im_start|>", "<|im_end|>", "[INST]", "[/INST]", "<s>", "</s>",
    "<<SYS>>", "<think>", "YES", "NO", "a", "é", "日本", "😀", " ", "query", "name=",
)  # fmt: skip


def rendered(rubric: Rubric, values: Mapping[str, FieldValue]) -> str:
    return request_for(Question(rubric, values, 0, 0.0, 9), NONCE, structured=True).user


def outside_of(rubric: Rubric) -> str:
    return blocks(rendered(rubric, dict.fromkeys(rubric.fields, "")))[1]


def check(rubric: Rubric, values: Mapping[str, FieldValue], outside: str) -> None:
    user = rendered(rubric, values)
    texts, rest = blocks(user)
    assert texts == values
    assert rest == outside
    assert user.count(NONCE) == 2 * len(values) + 1
    for line in user.split("\n"):
        if line.startswith(('"', "[")):
            assert not VISIBLE.search(line)
            assert not re.search(r"\[/?INST\]|<|>", line)


@pytest.mark.parametrize(
    ("rubric", "seed", "cases"),
    [
        *((RUBRIC, seed, 10_000) for seed in range(2)),
        *((rubric, seed, LIST_CASES // 4) for seed in range(2) for rubric in LISTED),
    ],
)
def test_thousands_of_texts_and_lists_come_back(rubric: Rubric, seed: int, cases: int):
    draw = random.Random(seed)

    def text() -> str:
        return "".join(draw.choices(PIECES, k=draw.randrange(12)))

    outside = outside_of(rubric)
    for _ in range(cases):
        values: dict[str, FieldValue] = {name: text() for name in rubric.fields}
        lists = {"references", "contexts"}.intersection(values)
        values |= {name: [text() for _ in range(draw.randrange(5))] for name in lists}
        check(rubric, values, outside)


def test_the_naive_model_obeys_nearly_every_attack_that_is_not_in_a_block():
    obeyed = [naive_model("", attack) for attack in ATTACKS]
    assert obeyed.count("YES") == len(ATTACKS)


def test_a_lone_surrogate_becomes_a_replacement_character():
    assert json.loads(data_block("query", "a\ud800b", NONCE).split("\n")[1]) == "a\ufffdb"


def test_nonces_differ_and_hold_no_letter_of_an_escape():
    nonces = {new_nonce() for _ in range(1000)}
    assert len(nonces) == 1000
    assert not set("".join(nonces)) & set("0123456789abcdefnrtu")
    assert all(re.fullmatch("[a-z]{32}", nonce) for nonce in nonces)


@pytest.mark.parametrize(
    "piece", ["<", "[", "[a", "[INST]", "\u200b", "\U000e0041", NONCE, '"', "é<"]
)
def test_work_is_not_quadratic_in_the_length(piece: str):
    def seconds(size: int) -> float:
        text, spent = (piece * size)[:size], []
        for _ in range(5):
            start = thread_time()
            data_block("query", text, NONCE)
            spent.append(thread_time() - start)
        return min(spent)

    assert seconds(1 << 18) < 80 * seconds(1 << 14) + 0.005  # quadratic: 256 times
