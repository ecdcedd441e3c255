"""Senders that take turns by what their work costs, each with a line of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from judged_server.tenant import Sender

INTERACTIVE, BATCH = 0, 1
"""The classes of work, in their order."""
BATCH_TURNS = 8
"""While interactive work waits, batch work has one of so many turns."""

Line = TypeVar("Line")


@dataclass(slots=True)
class _Turn(Generic[Line]):
    line: Line
    allowance: float
    left: float
    is_idle: bool = False


class RoundRobin(Generic[Line]):
    """Deficit round robin (Shreedhar and Varghese, 1995), charged once the cost is known.

    In its turn a sender may use `quantum` times its weight. Once that is used up the next one has
    its turn; what was used beyond it is made up for in the turns that follow. Nobody waits while
    there is work. Who comes with work after a while without any has the next turn, as the new flows
    of FQ-CoDel have (RFC 8290, 4.1), and is remembered for a round when its work is done: so a
    sender who has little is served at once, and nobody has more turns by leaving and coming back.
    Not safe for threads.
    """

    def __init__(self, quantum: float, new_line: Callable[[], Line]) -> None:
        """Give each sender a line of its own, which `new_line` makes, for its work that waits."""
        self._quantum = quantum
        self._new_line = new_line
        self._new: dict[str, _Turn[Line]] = {}
        """Those who came lately and have some of their first turn left. They go first."""
        self._old: dict[str, _Turn[Line]] = {}
        """All others in the order of their turns, and who had work in this round, idle."""
        self._working = 0

    def __len__(self) -> int:
        return self._working

    def __iter__(self) -> Iterator[Line]:
        turns = (*self._new.values(), *self._old.values())
        return (turn.line for turn in turns if not turn.is_idle)

    def line(self, sender: str, weight: float = 1.0) -> Line:
        """Return the line of a sender, who has work, and this weight from now on."""
        allowance = self._quantum * weight
        turn = self._find(sender)
        if turn is None:
            turn = self._new[sender] = _Turn(self._new_line(), allowance, allowance, is_idle=True)
        if turn.is_idle:
            turn.is_idle = False
            self._working += 1
        turn.allowance = allowance
        return turn.line

    def known(self, sender: str) -> Line | None:
        """Return the line of a sender who has work."""
        turn = self._find(sender)
        return None if turn is None or turn.is_idle else turn.line

    def next(self) -> tuple[str, Line] | None:
        """Return whose turn it is; None when nobody has work."""
        while turns := self._new or self._old:
            sender, turn = next(iter(turns.items()))
            if turn.left > 0 and not turn.is_idle:
                return sender, turn.line
            del turns[sender]
            if not turn.is_idle:
                turn.left += turn.allowance
                self._old[sender] = turn  # to the end of the line
        return None

    def turns_owed(self, sender: str) -> int:
        """Return after how many turns more it would be a sender's: 0 for one that has some left.

        0 too for one without a line.
        """
        turn = self._find(sender)
        if turn is None or turn.left > 0:
            return 0
        return int(-turn.left / turn.allowance) + 1

    def charge(self, sender: str, cost: float) -> None:
        """Count what was done of a sender's work; nothing if it has no line any more."""
        turn = self._find(sender)
        if turn is not None:
            turn.left -= cost

    def leave(self, sender: str) -> None:
        """Note that a sender's work is done or gone."""
        turn = self._new.pop(sender, None) or self._old.pop(sender, None)
        if turn is None:
            return
        if not turn.is_idle:
            self._working -= 1
            turn.is_idle = True
        turn.left = turn.allowance  # no debt is kept, and nothing saved up
        self._old[sender] = turn  # until the others have had their turns
        if not self._working:
            self.clear()

    def clear(self) -> None:
        """Forget everybody."""
        self._new.clear()
        self._old.clear()
        self._working = 0

    def _find(self, sender: str) -> _Turn[Line] | None:
        return self._new.get(sender) or self._old.get(sender)


class ClassOrder:
    """Interactive work first, with a turn for batch work now and then, so that it never starves."""

    def __init__(self, in_a_row: int = BATCH_TURNS - 1) -> None:
        """Let batch work that waits have a turn after so many interactive ones."""
        self._most = in_a_row
        self._in_a_row = 0

    def first(self, interactive: bool, batch: bool) -> int | None:
        """Return the class whose turn it is, of those that have work; None when none has."""
        if interactive and not (batch and self._in_a_row >= self._most):
            return INTERACTIVE
        return BATCH if batch else None

    def next(self, interactive: bool, batch: bool) -> int | None:
        """Return the same, for a turn that is taken now."""
        turn = self.first(interactive, batch)
        self._in_a_row = self._in_a_row + batch if turn == INTERACTIVE else 0
        return turn


Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """What waits, in the order in which it is done: by class, then by sender, then as it came.

    Not safe for threads.
    """

    def __init__(self, quantum: float) -> None:
        """Let a sender of weight 1 use `quantum` in its turn."""
        self._classes: tuple[RoundRobin[deque[Item]], ...] = tuple(
            RoundRobin(quantum, deque) for _ in (INTERACTIVE, BATCH)
        )
        self._order = ClassOrder()

    def __len__(self) -> int:
        return sum(len(line) for senders in self._classes for line in senders)

    def __iter__(self) -> Iterator[Item]:
        return (item for senders in self._classes for line in senders for item in line)

    def put(self, item: Item, sender: Sender, *, again: bool = False) -> None:
        """Let something wait; before all else of its sender if it is there `again`."""
        senders = self._classes[BATCH if sender.is_batch else INTERACTIVE]
        line = senders.line(sender.name, sender.weight)
        (line.appendleft if again else line.append)(item)

    def first(self) -> Item | None:
        """Return what comes next; it still waits."""
        return self._take(self._order.first, None)

    def take(self, cost: float) -> Item | None:
        """Return what comes next, which its sender is charged for; None when nothing waits."""
        return self._take(self._order.next, cost)

    def _take(self, order: Callable[[bool, bool], int | None], cost: float | None) -> Item | None:
        turn = order(*(len(senders) > 0 for senders in self._classes))
        if turn is None or (found := self._classes[turn].next()) is None:
            return None
        sender, line = found
        if cost is None:
            return line[0]
        item = line.popleft()
        if line:
            self._classes[turn].charge(sender, cost)
        else:
            self._classes[turn].leave(sender)
        return item
