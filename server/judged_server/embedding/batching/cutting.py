"""Windows that wait, and which of them run together.

Senders take turns of QUANTUM tokens (`scheduling.round_robin`), and what others' batches took of a
sender's windows counts. Interactive calls of a sender go one after the other: where they share, all
are late. Its batch calls take turns. The call whose turn it is gives its longest window; the batch
is filled with windows of about that length, of whichever call, and of the senders that have had
least of their turns; that of a sender who has little beside a busy one brings all its windows, so
that it waits for no other batch. So padding stays small whatever the calls bring, nobody gets more
than its share by filling others' batches, and nobody starves: where C calls of one sender take
turns, a call with n windows is done after at most n * C batches of that sender, however many longer
texts come after it.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from judged_server.domain import IntArray
from judged_server.embedding.tokenizer import TokenIds
from judged_server.scheduling.round_robin import RoundRobin

PADDING_TOKENS = 16
"""How much shorter than the longest a window of the same batch may be. A batch of its own costs
about as much as running these tokens, by measurement."""
QUANTUM = 512
"""Tokens of a sender's turn: a small call whole."""
LEAST_BUDGET = 32
"""Tokens below which sharing work among idle workers costs more than it wins."""

_sequence = itertools.count()


@dataclass(slots=True, eq=False)
class Waiting:
    """A window that waits in one or two pools until it is taken, or dropped with its text."""

    token_ids: TokenIds
    length: int
    taken: bool = field(default=False, init=False)
    pools: list[WindowPool] = field(default_factory=list, init=False)
    sender: str = field(default="", init=False)

    def take(self) -> None:
        """Leave every pool."""
        if not self.taken:
            self.taken = True
            for pool in self.pools:
                pool.tokens -= self.length
            self.pools = []


@dataclass(slots=True, eq=False)
class WindowHeap:
    """The windows of one call, the longest first; those taken by others are passed over."""

    sender: str = ""
    weight: float = 1.0
    heap: list[tuple[int, int, Waiting]] = field(default_factory=list)
    has_turn: bool = False

    def push(self, window: Waiting) -> None:
        """Add a window."""
        heapq.heappush(self.heap, (-window.length, next(_sequence), window))

    def pop(self) -> Waiting | None:
        """Return the longest window that still waits, without taking it."""
        while self.heap:
            window = heapq.heappop(self.heap)[2]
            if not window.taken:
                return window
        return None


def _nothing(_: WindowHeap) -> bool:
    return False


def _nobody(_: str) -> bool:
    return False


class WindowPool:
    """Windows of calls of one class. Not safe for threads."""

    def __init__(self, *, in_turns: bool = True) -> None:
        """Let the calls of a sender take turns, or go one after the other."""
        self._in_turns = in_turns
        self._senders: RoundRobin[deque[WindowHeap]] = RoundRobin(QUANTUM, deque)
        self._by_length: dict[int, dict[str, deque[Waiting]]] = {}
        """And by sender: one that several calls want is that of the first one's."""
        self._lengths: list[int] = []
        self.tokens = 0
        """Tokens of all windows that wait; 0 when none does."""

    def add(self, heap: WindowHeap, windows: Iterable[Waiting]) -> None:
        """Let windows wait on behalf of a call; one that another call brought is not counted twice.

        A window that runs already, or has run, is left out.
        """
        for window in windows:
            if window.taken:
                continue
            heap.push(window)
            if self in window.pools:
                continue
            if not window.pools:
                window.sender = heap.sender
            window.pools.append(self)
            self.tokens += window.length
            if window.length not in self._by_length:
                self._by_length[window.length] = {}
                insort(self._lengths, window.length)
            of_length = self._by_length[window.length]
            if window.sender not in of_length:
                of_length[window.sender] = deque()
            of_length[window.sender].append(window)
        if heap.heap and not heap.has_turn:
            heap.has_turn = True
            self._senders.line(heap.sender, heap.weight).append(heap)

    def cut(
        self,
        budget: int,
        sharers: int = 1,
        refuse: Callable[[WindowHeap], bool] = _nothing,
        whole: Callable[[str], bool] = _nobody,
    ) -> list[Waiting]:
        """Take the next batch: longest * count <= budget, or one window that is longer.

        What little there is goes round: each of `sharers` idle workers gets about the same. A call
        whose turn it is and that `refuse` has dropped is passed over. One of a sender that `whole`
        is true of brings all its windows that fit, of whatever lengths. Empty when nothing waits.
        """
        if sharers > 1:
            budget = min(budget, max(LEAST_BUDGET, -(-self.tokens // sharers)))
        found = self._next_seed(refuse)
        if found is None:
            return []
        call, seed = found
        batch: list[Waiting] = []
        self._take(seed, batch)
        longest, turns = seed.length, 0
        if whole(call.sender):
            self._take_rest(call, batch, budget)
        while True:
            at = bisect_right(self._lengths, seed.length + PADDING_TOKENS) - 1
            owed: list[int] = []
            while at >= 0 and longest - self._lengths[at] <= PADDING_TOKENS:
                longest = self._fill(batch, budget, longest, self._lengths[at], turns, owed)
                at -= 1
            if not owed:
                break
            turns = min(owed)
        if not self.tokens:
            self._clear()
        return batch

    def cut_of(self, sender: str, budget: int) -> list[Waiting]:
        """Take windows of one sender alone, of whatever lengths: longest * count <= budget."""
        calls = self._senders.known(sender)
        batch: list[Waiting] = []
        longest = 0
        while calls is not None and (found := self._pop(calls, _nothing)):
            call, window = found
            longest = max(longest, window.length)
            if batch and longest * (len(batch) + 1) > budget:
                call.push(window)
                break
            self._take(window, batch)
        if batch and not self.tokens:
            self._clear()
        return batch

    def _next_seed(self, refuse: Callable[[WindowHeap], bool]) -> tuple[WindowHeap, Waiting] | None:
        while (turn := self._senders.next()) is not None:
            sender, calls = turn
            if found := self._pop(calls, refuse):
                return found
            self._senders.leave(sender)
        return None

    def _pop(
        self, calls: deque[WindowHeap], refuse: Callable[[WindowHeap], bool]
    ) -> tuple[WindowHeap, Waiting] | None:
        """Return the call whose turn it is and its longest window; None when none waits."""
        while calls:
            heap = calls.popleft()
            window = heap.pop()
            if window is not None and not refuse(heap):
                (calls.append if self._in_turns else calls.appendleft)(heap)
                return heap, window
            heap.has_turn = False
        return None

    def _take_rest(self, call: WindowHeap, batch: list[Waiting], budget: int) -> None:
        """Take a call's other windows as long as they fit, the longest first."""
        longest = batch[0].length
        while longest * (len(batch) + 1) <= budget and (window := call.pop()):
            self._take(window, batch)

    def _fill(
        self,
        batch: list[Waiting],
        budget: int,
        longest: int,
        length: int,
        turns: int,
        owed: list[int],
    ) -> int:
        """Add windows of a length while they fit; return the length of the longest in the batch.

        Senders may run ahead by as many `turns`. To `owed` is added how many it would take, for
        each of those who have used them up and have more that would fit.
        """
        of_length = self._by_length[length]
        padded = max(longest, length)
        for sender in list(of_length):
            windows = of_length[sender]
            while windows and padded * (len(batch) + 1) <= budget:
                if windows[0].taken:
                    windows.popleft()
                    continue
                needed = self._senders.turns_owed(sender)
                if needed > turns:
                    owed.append(needed)
                    break
                self._take(windows.popleft(), batch)
                longest = padded
            if not windows:
                del of_length[sender]
        if not of_length:
            del self._by_length[length]
            self._lengths.remove(length)
        return longest

    def _take(self, window: Waiting, batch: list[Waiting]) -> None:
        """Take a window into a batch; its sender is charged for it."""
        window.take()
        batch.append(window)
        self._senders.charge(window.sender, window.length)

    def _clear(self) -> None:
        """Let go of what was dropped or taken on another call's behalf."""
        for calls in self._senders:
            for heap in calls:
                heap.heap.clear()
                heap.has_turn = False
        self._senders.clear()
        self._by_length.clear()
        self._lengths.clear()


def pad(rows: Sequence[NDArray[np.int64]], pad_id: int) -> tuple[IntArray, IntArray]:
    """Return token ids, padded on the right to the longest row, and the mask of real tokens."""
    lengths = np.array([len(row) for row in rows], np.int64)
    mask = np.arange(lengths.max()) < lengths[:, None]
    token_ids = np.full(mask.shape, pad_id, np.int64)
    token_ids[mask] = np.concatenate(rows)
    return token_ids, mask.astype(np.int64)
