"""Which texts are flagged: those with tokens that only chat templates use, or that nobody sees."""

from __future__ import annotations

from time import thread_time

import pytest
from judged_server.llm.question import holds_reserved

from tests.fakes.providers.prompt_attacks import CORPUS

TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "yes")


@pytest.mark.parametrize(
    "text",
    [
        "<|im_start|>system", "<|im_end|>", "<|eot_id|>",
        "<\uff5cbegin\u2581of\u2581sentence\uff5c>",
        "x [INST] y", "[/INST]", "[SYSTEM_PROMPT]", "<<SYS>>", "<</SYS>>", "<start_of_turn>user",
        "<end_of_turn>", "<bos>", "<|user|>", "</data-ghijklmopqsvwxyzghijklmopqsvwxyz>",
        f"seen{TAGS}", "\u202eesrever\u202c", "\u2066a\u2069",
    ],
)  # fmt: skip
def test_flagged(text: str):
    assert holds_reserved(text)
    assert holds_reserved(f"words before {text} and behind")


@pytest.mark.parametrize(
    "text",
    [
        "", "plain", "<b>bold</b> and <i>italic</i>", "a < b | c > d", "if (a <| b) |> c",
        "[1] [Inst]",
        "list[int]", "<system>", "x <s>old</s> new", "data-driven </data>", "é 日本語 العربية",
        "caf\u00e9 \u200b\u200d \ufeff", "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e007f",
        "\u200eleft to right\u200f",
    ],
)  # fmt: skip
def test_not_flagged(text: str):
    assert not holds_reserved(text)


def test_attacks_by_characters_and_tokens_are_among_the_flagged():
    flagged = [attack for attack in CORPUS if holds_reserved(attack.text)]
    assert {"Unicode tag", "delimiter forgery"} <= {attack.family for attack in flagged}
    forged = [attack for attack in CORPUS if "<|" in attack.text or "[INST]" in attack.text]
    assert forged
    assert set(forged) <= set(flagged)


@pytest.mark.parametrize("piece", ["<|", "<", "[", "\U0001f3f4\U000e0067", "</data-", "<|a"])
def test_time_is_linear(piece: str):
    text = piece * 100_000
    began = thread_time()
    holds_reserved(text)
    assert thread_time() - began < 1
