"""Requests and tokens per minute, spread evenly over the minute.

Each rate is a bucket that may fall into debt: a call goes when the bucket is not in debt, and then
pays. A second's worth may go at once, so any minute sees at most the rate, a second of it more, and
one call. Owns when a call may go by the operator's own limits; the provider's are in `concurrency`
and `retrying`.
"""

from __future__ import annotations

from judged_server.llm.clock import Clock


class Bucket:
    """One rate."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        self._per_second = per_minute / 60
        self._clock = clock
        self._most = max(self._per_second, 1.0)
        self._level = self._most
        self._read_at = clock.now()

    def wait_s(self) -> float:
        """Return the seconds until the bucket is out of debt."""
        now = self._clock.now()
        self._level = min(self._most, self._level + (now - self._read_at) * self._per_second)
        self._read_at = now
        # A whole request must be there; of tokens one will do, since a call may be of any size.
        return max(0.0, (1.0 - self._level) / self._per_second)

    def pay(self, amount: float) -> None:
        """Take an amount out; a negative one gives back."""
        self._level = min(self._most, self._level - amount)


class Rates:
    """The rates of one provider; None for no limit."""

    def __init__(self, requests: float | None, tokens: float | None, clock: Clock) -> None:
        self._requests = None if requests is None else Bucket(requests, clock)
        self._tokens = None if tokens is None else Bucket(tokens, clock)

    def wait_s(self) -> float:
        """Return the seconds until the next call may go."""
        return max(
            0.0 if self._requests is None else self._requests.wait_s(),
            0.0 if self._tokens is None else self._tokens.wait_s(),
        )

    def pay(self, requests: int, tokens: float) -> None:
        """Take a call out, or correct one that was."""
        if self._requests is not None:
            self._requests.pay(requests)
        if self._tokens is not None:
            self._tokens.pay(tokens)
