from __future__ import annotations

import random
import string
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.budgets import cost_of, request_tokens, tokens_at_most
from judged_server.llm.chat import ChatRequest, Prices, ReplySchema

bpe_openai = pytest.importorskip("bpe_openai", reason="an oracle of the dev extra")

TEXTS = {
    "prose": "The quick brown fox jumps over the lazy dog, and nobody in the village minds. " * 20,
    "german": "Die Straßenverkehrsordnung regelt überall, wer wo fahren darf und wer nicht. " * 20,
    "code": "def f(x):\n    return [y ** 2 for y in range(x) if y % 3 == 0]\n\n" * 20,
    "json": '{"id": 12345, "name": "a name", "tags": ["x", "y"], "on": true}\n' * 20,
    "numbers": " ".join(str(n * 7919) for n in range(300)),
    "chinese": "人工智能正在改变世界的许多方面以及医疗和教育。" * 20,
    "japanese": "東京は日本の首都であり、世界で最も人口の多い都市の一つです。" * 20,
    "korean": "서울은 대한민국의 수도이며 가장 큰 도시이다. " * 20,
    "thai": "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย" * 20,
    "hindi": "भारत एक विशाल देश है जिसमें कई भाषाएँ बोली जाती हैं। " * 20,
    "arabic": "اللغة العربية هي إحدى أكثر اللغات انتشارا في العالم. " * 20,
    "emoji": "👩‍👩‍👧‍👦🎉🚀🤷🏽‍♀️ ok " * 40,
    "escapes": "\\u003cb\\u003e \\u0026 \\u200b" * 40,
    "spaces": "a" + " " * 500 + "b\n\n\n\n" * 20,
    "signs": "-=+*/%$#@!~^&()[]{}<>|;:,.?" * 20,
    "capitals": "THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG " * 20,
    "identifiers": "getElementByIdOrThrowNotFoundException HTTPServerConnectionPool " * 20,
}


@pytest.mark.parametrize("encoding", ["cl100k_base", "o200k_base", "voyage3_base"])
def test_no_tokenizer_makes_more_of_a_real_text(encoding):
    tokenizer = bpe_openai.get_encoding(encoding)
    for name, text in TEXTS.items():
        assert len(tokenizer.encode_ordinary(text)) <= tokens_at_most(text), name


def test_it_is_below_the_truth_by_little_even_for_letters_of_no_language():
    rng = random.Random(7)
    tokenizer = bpe_openai.get_encoding("cl100k_base")
    for letters in (string.ascii_lowercase, string.ascii_uppercase, string.ascii_letters):
        text = "".join(rng.choices(letters, k=4000))
        assert len(tokenizer.encode_ordinary(text)) <= 1.5 * tokens_at_most(text)


@given(st.text())
def test_it_is_never_more_than_the_bytes_and_never_less_than_half(text):
    raw = text.encode("utf-8", "surrogatepass")
    assert len(raw) <= 2 * tokens_at_most(text) <= 2 * len(raw) + 1


def test_a_request_counts_all_that_is_sent():
    bare = ChatRequest("", "", None, 10, 0.0)
    assert request_tokens(bare) == 48
    schema = ReplySchema("verdict", {"type": "object"})
    full = ChatRequest("ab", "cdef", schema, 10, 0.0)
    assert request_tokens(full) == 48 + 1 + 2 + 4 + tokens_at_most('{"type":"object"}')


@given(
    st.floats(0, 1e4, allow_subnormal=False),
    st.floats(0, 1e4, allow_subnormal=False),
    st.integers(0, 10**7),
    st.integers(0, 10**7),
)
def test_a_cost_is_rounded_up_to_the_next_nano_unit(input_price, output_price, i, o):
    prices = Prices(input_price, output_price)
    exact = (Decimal(repr(input_price)) * i + Decimal(repr(output_price)) * o) * 1000
    assert 0 <= cost_of(prices, i, o) - exact < Decimal("1.001")


def test_a_huge_count_stays_within_64_bits():
    assert cost_of(Prices(1e9, 1e9), 10**18, 10**18) == 1 << 62
