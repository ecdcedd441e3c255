"""The bound on work that waits: tokens admitted and not yet done."""

from __future__ import annotations

from judged_server.errors import Overloaded

DEFAULT_RATE = 5_000.0
"""Tokens a second until a batch has been measured: half of what two cores reach."""

_NEWEST_SHARE = 0.2
_SHORTEST_DELAY_S, _LONGEST_DELAY_S = 0.1, 30.0


class Backlog:
    """Counts tokens in flight."""

    def __init__(self, max_tokens: int) -> None:
        self._max_tokens = max_tokens
        self._rate = DEFAULT_RATE
        self.tokens = 0
        """Tokens, by estimate, of all texts that have been let in and are not done."""

    def admit(self, tokens: int) -> None:
        """Let work in, or raise Overloaded. An idle engine takes a call of any size."""
        if tokens and self.tokens and self.tokens + tokens > self._max_tokens:
            raise Overloaded(
                f"{self.tokens} tokens wait to be embedded, the limit is {self._max_tokens}",
                min(max(self.tokens / self._rate, _SHORTEST_DELAY_S), _LONGEST_DELAY_S),
            )
        self.tokens += tokens

    def release(self, tokens: int) -> None:
        """Count work that is done, or that nobody waits for any more."""
        self.tokens -= tokens

    def measured(self, tokens: int, seconds: float, workers: int) -> None:
        """Learn the rate from one worker's batch."""
        if tokens and seconds > 0:
            self._rate += _NEWEST_SHARE * (workers * tokens / seconds - self._rate)
