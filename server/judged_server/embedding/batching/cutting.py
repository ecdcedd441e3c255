"""Windows that wait, and which of them run together.

The call whose turn it is gives its longest window; the batch is filled with windows of about that
length, of whichever call. So padding stays small whatever the calls bring, and nobody starves:
among C calls, a call with n windows is done after at most n * C batches, however many longer texts
come after it.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from judged_server.domain import IntArray
from judged_server.embedding.tokenizer import TokenIds

PADDING_TOKENS = 16
"""How much shorter than the longest a window of the same batch may be. A batch of its own costs
about as much as running these tokens, by measurement."""
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


class WindowPool:
    """Windows of calls of one class. Not safe for threads."""

    def __init__(self) -> None:
        self._turns: deque[WindowHeap] = deque()
        self._by_length: dict[int, deque[Waiting]] = {}
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
            window.pools.append(self)
            self.tokens += window.length
            if window.length not in self._by_length:
                self._by_length[window.length] = deque()
                insort(self._lengths, window.length)
            self._by_length[window.length].append(window)
        if heap.heap and not heap.has_turn:
            heap.has_turn = True
            self._turns.append(heap)

    def cut(self, budget: int, sharers: int = 1) -> list[Waiting]:
        """Take the next batch: longest * count <= budget, or one window that is longer.

        What little there is goes round: each of `sharers` idle workers gets about the same. Empty
        when nothing waits.
        """
        if sharers > 1:
            budget = min(budget, max(LEAST_BUDGET, -(-self.tokens // sharers)))
        seed = self._next_seed()
        if seed is None:
            return []
        batch = [seed]
        seed.take()
        at = bisect_right(self._lengths, seed.length + PADDING_TOKENS) - 1
        longest = seed.length
        while at >= 0 and longest - self._lengths[at] <= PADDING_TOKENS:
            longest = self._fill(batch, budget, longest, self._lengths[at])
            at -= 1
        if not self.tokens:
            self._clear()
        return batch

    def _next_seed(self) -> Waiting | None:
        while self._turns:
            heap = self._turns.popleft()
            window = heap.pop()
            if window is not None:
                self._turns.append(heap)
                return window
            heap.has_turn = False
        return None

    def _fill(self, batch: list[Waiting], budget: int, longest: int, length: int) -> int:
        """Add windows of a length while they fit; return the length of the longest in the batch."""
        bucket = self._by_length[length]
        padded = max(longest, length)
        while bucket and padded * (len(batch) + 1) <= budget:
            window = bucket.popleft()
            if not window.taken:
                window.take()
                batch.append(window)
                longest = padded
        if not bucket:
            del self._by_length[length]
            self._lengths.remove(length)
        return longest

    def _clear(self) -> None:
        """Let go of what was dropped or taken on another call's behalf."""
        for heap in self._turns:
            heap.heap.clear()
            heap.has_turn = False
        self._turns.clear()
        self._by_length.clear()
        self._lengths.clear()


def pad(rows: Sequence[NDArray[np.int64]], pad_id: int) -> tuple[IntArray, IntArray]:
    """Return token ids, padded on the right to the longest row, and the mask of real tokens."""
    lengths = np.array([len(row) for row in rows], np.int64)
    mask = np.arange(lengths.max()) < lengths[:, None]
    token_ids = np.full(mask.shape, pad_id, np.int64)
    token_ids[mask] = np.concatenate(rows)
    return token_ids, mask.astype(np.int64)
