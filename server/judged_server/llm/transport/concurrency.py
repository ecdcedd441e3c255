"""How many calls a provider gets at once: fewer when it is pressed, one more when all goes well.

Additive increase, multiplicative decrease, as TCP does it (Chiu and Jain, Computer Networks and
ISDN Systems 17, 1989): the limit is halved when the provider says 429 or runs out of time, at most
once for the calls that were then under way, and grows by one when as many calls as it allows have
succeeded at the limit.
"""

from __future__ import annotations


class ConcurrencyLimit:
    """The limit of one provider and key, between 1 and `maximum`."""

    def __init__(self, maximum: int) -> None:
        self._maximum = maximum
        self._begun = 0
        self._halved_at = 0
        self._successes = 0
        self.limit = maximum
        self.in_flight = 0

    @property
    def has_room(self) -> bool:
        """Whether a call may begin now."""
        return self.in_flight < self.limit

    def begin(self) -> int:
        """Begin a call for which there is room; return its number."""
        self.in_flight += 1
        self._begun += 1
        return self._begun

    def succeeded(self) -> None:
        """End a call that was answered."""
        self._successes += self.in_flight >= self.limit
        if self._successes >= self.limit:
            self._successes = 0
            self.limit = min(self.limit + 1, self._maximum)
        self.ended()

    def pressed(self, number: int, least: int = 1) -> None:
        """End a call for which the provider had no room; the limit stays at `least` or above."""
        if number > self._halved_at:
            self._halved_at = self._begun
            self._successes = 0
            self.limit = min(max(1, least, self.limit // 2), self.limit)
        self.ended()

    def ended(self) -> None:
        """End a call that says nothing of the provider's room."""
        self.in_flight -= 1
