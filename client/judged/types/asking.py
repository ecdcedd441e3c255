"""How a call wants language models to be asked, what asking took, and what it would take."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from judged._views import View


class CacheMode(IntEnum):
    """What the server's verdict cache is for; the numbers are those of the contract."""

    USE = 1
    """Read what is there, and keep what is new."""
    REFRESH = 2
    """Read nothing, and keep what is new."""
    ONLY = 3
    """Ask no model: a verdict that is not cached is an error with the reason NOT_CACHED."""


@dataclass(frozen=True, slots=True)
class Asking:
    """How language models are asked; judges that ask none ignore it.

    `max_cost` is the most that the models may cost, above 0, in the currency of the server's
    prices; None leaves it to the server's own limits. What could exceed it is not asked. It holds
    for the call as a whole: of several messages each gets the share that its contexts are of all.
    """

    cache: CacheMode = CacheMode.USE
    max_cost: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls to language models took: `calls` were answered, `attempts` were made.

    `cost` is in the currency of the server's prices, None where a price is not configured.
    `latency_s` is summed over the calls. `cached` samples came from the verdict cache, `shared`
    ones from the call of another caller who asked the same at that moment.
    """

    calls: int = 0
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    latency_s: float = 0.0
    cached: int = 0
    shared: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return both together."""
        known = self.cost is not None and other.cost is not None
        return Usage(
            self.calls + other.calls,
            self.attempts + other.attempts,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            (self.cost or 0.0) + (other.cost or 0.0) if known else None,
            self.latency_s + other.latency_s,
            self.cached + other.cached,
            self.shared + other.shared,
        )


@dataclass(frozen=True, slots=True, repr=False)
class CostEstimate(View):
    """What judging or scoring would take at most, without retries; nothing was asked.

    `contexts` counts pairs of an item and a rubric where answers are to be scored. `cache_hits` is
    how many samples the server's cache would answer. `cost` is in `currency`: 0 without calls, None
    where a price is not configured. Of work that travels in several messages it is the sum, so that
    a text in two of them counts twice among `distinct_texts`.
    """

    contexts: int = 0
    distinct_texts: int = 0
    cache_hits: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    currency: str = ""

    def __add__(self, other: CostEstimate) -> CostEstimate:
        """Return both together."""
        known = self.cost is not None and other.cost is not None
        return CostEstimate(
            self.contexts + other.contexts,
            self.distinct_texts + other.distinct_texts,
            self.cache_hits + other.cache_hits,
            self.calls + other.calls,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            (self.cost or 0.0) + (other.cost or 0.0) if known else None,
            self.currency or other.currency,
        )
