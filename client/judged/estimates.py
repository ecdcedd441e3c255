"""What work with language models would take."""

from __future__ import annotations

from dataclasses import dataclass

from judged._views import View


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
