"""What a request may cost before it is sent, and what a reply has cost after.

No tokenizer is asked: a server knows no provider's, and one for each would cost more than the
estimate. Byte-level tokenizers never make more tokens than bytes. ASCII letters merge to two a
token at least, but for texts that no language has; everything else (digits, spaces, signs, bytes of
other scripts) is counted one by one, as some tokenizers do.
"""

from __future__ import annotations

import string
from decimal import Decimal
from functools import lru_cache

import orjson

from judged_server.llm.chat import ChatRequest, Prices
from judged_server.spending import nano_covering

MESSAGE_TOKENS = 16
"""What a chat template sets around each of the two messages, and before the reply."""

_MERGE = string.ascii_letters.encode()
_PER_MILLION = Decimal(10) ** -6


def tokens_at_most(text: str) -> int:
    """Return how many tokens a text has at most, for the tokenizers of today's models.

    Half a token for each ASCII letter, rounded up, and one for every other byte.
    """
    raw = text.encode("utf-8", "surrogatepass")
    single = len(raw.translate(None, _MERGE))
    return single + (len(raw) - single + 1) // 2


def request_tokens(request: ChatRequest) -> int:
    """Return how many input tokens a request has at most; its schema is counted as a text."""
    tokens = 3 * MESSAGE_TOKENS + tokens_at_most(request.system) + tokens_at_most(request.user)
    if request.schema is not None:
        tokens += _schema_tokens(request.schema.name, orjson.dumps(request.schema.schema))
    return tokens


def cost_of(prices: Prices, input_tokens: int, output_tokens: int) -> int:
    """Return what so many tokens cost, in nano-units, rounded up."""
    input_price, output_price = _exact(prices)
    return nano_covering(input_price * input_tokens + output_price * output_tokens)


@lru_cache(maxsize=256)
def _schema_tokens(name: str, schema: bytes) -> int:
    return tokens_at_most(name) + tokens_at_most(schema.decode())


@lru_cache(maxsize=256)
def _exact(prices: Prices) -> tuple[Decimal, Decimal]:
    """Return the prices of a token, exactly as they were written."""
    return (
        Decimal(repr(prices.input_per_million)) * _PER_MILLION,
        Decimal(repr(prices.output_per_million)) * _PER_MILLION,
    )
