"""What questions to language models cost, known from above before they are asked."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache

import orjson

from judged_server.domain.usage import nano_covering
from judged_server.llm.chat import ChatModel, ChatRequest, Prices, prices_of
from judged_server.llm.question import PlannedCall, Question, request_for
from judged_server.llm.rubrics.prompt import new_nonce

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


def most_of(prices: Sequence[Prices], request: ChatRequest) -> int:
    """Return the most that a request can cost, in nano-units, whichever of the prices holds."""
    tokens = request_tokens(request)
    return max(cost_of(each, tokens, request.max_tokens) for each in prices)


@dataclass(frozen=True, slots=True)
class CallEstimate:
    """What one call takes at most: tokens, and nano-units of money; None without a price."""

    input_tokens: int
    output_tokens: int
    cost: int | None


def estimate_call(model: ChatModel, question: Question) -> CallEstimate:
    """Return what it takes at most to put a question once."""
    request = request_for(model.card, question, new_nonce())
    prices = prices_of(model)
    cost = most_of(prices, request) if prices else None
    return CallEstimate(request_tokens(request), request.max_tokens, cost)


def estimate_calls(
    planned_calls: Iterable[PlannedCall],
) -> Iterator[tuple[PlannedCall, CallEstimate]]:
    """Yield each planned call with what it takes at most to put its question once."""
    last: tuple[object, object] | None = None
    weight = CallEstimate(0, 0, 0)
    for planned in planned_calls:
        question = planned.question
        # The samples of one matter follow each other, and weigh the same.
        if last is None or last[0] is not question.fields or last[1] is not question.rubric:
            weight = estimate_call(planned.model, question)
            last = (question.fields, question.rubric)
        yield planned, weight
