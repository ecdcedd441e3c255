"""Senders that take turns by what their work costs, each with a line of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from judged_server.tenant import Sender

INTERACTIVE, BATCH = 0, 1
"""The classes of work, in their order."""
BATCH_TURNS = 8
"""While interactive work waits, batch work has one of so many turns."""

Item = TypeVar("Item")


@dataclass(slots=True)
class _Line(Generic[Item]):
    """What waits of one sender, its share of a round, and what is left of its turn."""

    allowance: float
    left: float
    items: deque[Item] = field(default_factory=deque)


class RoundRobin(Generic[Item]):
    """Deficit round robin (Shreedhar and Varghese, 1995), charged once the cost is known.

    In its turn a sender may use `quantum` times its weight. Once that is used up the next one has
    its turn; what was used beyond it is made up for in the turns that follow. Nobody waits while
    there is work. Who comes with work after a while without any has the next turn, as the new flows
    of FQ-CoDel have (RFC 8290, 4.1), and is remembered for a round when its work is done: so a
    sender who has little is served at once, and nobody has more turns by leaving and coming back.
    Not safe for threads.
    """

    def __init__(self, quantum: float) -> None:
        self._quantum = quantum
        self._new: dict[str, _Line[Item]] = {}
        """Those who came lately and have some of their first turn left. They go first."""
        self._old: dict[str, _Line[Item]] = {}
        """All others in the order of their turns, and who had work in this round."""
        self._waiting = 0

    def __len__(self) -> int:
        return self._waiting

    def __iter__(self) -> Iterator[Item]:
        for line in (*self._new.values(), *self._old.values()):
            yield from line.items

    def put(self, item: Item, sender: Sender, *, again: bool = False) -> None:
        """Let something wait; before all else of its sender if it is there `again`."""
        allowance = self._quantum * sender.weight
        line = self._new.get(sender.name) or self._old.get(sender.name)
        if line is None:
            line = self._new[sender.name] = _Line(allowance, allowance)
        self._waiting += 1
        line.allowance = allowance
        (line.items.appendleft if again else line.items.append)(item)

    def first(self) -> Item | None:
        """Return what comes next; it still waits."""
        found = self._next()
        return None if found is None else found[1].items[0]

    def take(self, cost: float) -> Item | None:
        """Return what comes next, which its sender is charged for; None when nothing waits."""
        found = self._next()
        if found is None:
            return None
        sender, line = found
        item = line.items.popleft()
        line.left -= cost
        self._waiting -= 1
        if not line.items:
            self._leave(sender, line)
        return item

    def charge(self, cost: float, *, to_the_end: bool) -> None:
        """Charge its sender for a part of what comes next, which then waits behind its others."""
        if (found := self._next()) is not None:
            found[1].left -= cost
            if to_the_end:
                found[1].items.rotate(-1)

    def _next(self) -> tuple[str, _Line[Item]] | None:
        while lines := self._new or self._old:
            sender, line = next(iter(lines.items()))
            if line.left > 0 and line.items:
                return sender, line
            del lines[sender]
            if line.items:
                line.left += line.allowance
                self._old[sender] = line  # to the end of the round
        return None

    def _leave(self, sender: str, line: _Line[Item]) -> None:
        """Remember a sender without work until the others have had their turns."""
        (self._new if sender in self._new else self._old).pop(sender)
        line.left = line.allowance  # no debt is kept, and nothing saved up
        self._old[sender] = line
        if not self._waiting:
            self._new.clear()
            self._old.clear()


class FairQueue(Generic[Item]):
    """What waits, in the order in which it is done: by class, then by sender, then as it came.

    Interactive work goes first, with a turn for batch work now and then, so that it never starves.
    Not safe for threads.
    """

    def __init__(self, quantum: float) -> None:
        """Let a sender of weight 1 use `quantum` in its turn."""
        self._classes: tuple[RoundRobin[Item], RoundRobin[Item]] = (
            RoundRobin(quantum),
            RoundRobin(quantum),
        )
        self._in_a_row = 0
        """Interactive turns since batch work had one, or came."""

    def __len__(self) -> int:
        return sum(map(len, self._classes))

    def __iter__(self) -> Iterator[Item]:
        for senders in self._classes:
            yield from senders

    def put(self, item: Item, sender: Sender, *, again: bool = False) -> None:
        """Let something wait; before all else of its sender if it is there `again`."""
        self._classes[BATCH if sender.is_batch else INTERACTIVE].put(item, sender, again=again)

    def first(self) -> Item | None:
        """Return what comes next; it still waits."""
        return self._senders().first()

    def take(self, cost: float) -> Item | None:
        """Return what comes next, which its sender is charged for; None when nothing waits."""
        return self.turn().take(cost)

    @property
    def interactive(self) -> RoundRobin[Item]:
        """The senders of interactive work."""
        return self._classes[INTERACTIVE]

    def turn(self) -> RoundRobin[Item]:
        """Return the senders of the class whose turn it is; that counts as the turn."""
        interactive, batch = self._classes
        senders = self._senders()
        self._in_a_row = self._in_a_row + bool(batch) if senders is interactive else 0
        return senders

    def _senders(self) -> RoundRobin[Item]:
        interactive, batch = self._classes
        is_due = bool(batch) and self._in_a_row >= BATCH_TURNS - 1
        return batch if is_due or not interactive else interactive
