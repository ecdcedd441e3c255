"""Texts on their way to a vector, the calls that wait for them, and which windows run together.

Each distinct text is an entry that no call owns: it goes on as long as any call waits for it, so
that the call that began it can leave without harm to the others.

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

import asyncio
import heapq
import itertools
import time
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from judged.values.choices import Flag

from judged_server.domain import Float32Array
from judged_server.embedding.base import TRUNCATE
from judged_server.embedding.tokenizer import TokenIds, TokenizedText
from judged_server.scheduling.round_robin import RoundRobin
from judged_server.tracing import StageRun

PADDING_TOKENS = 16
"""How much shorter than the longest a window of the same batch may be. A batch of its own costs
about as much as running these tokens, by measurement."""
QUANTUM = 512
"""Tokens of a sender's turn: a small call whole."""
LEAST_BUDGET = 32
"""Tokens below which sharing work among idle workers costs more than it wins."""

SWEPT_FROM = 1024
"""Windows held from which those that do not wait any more are looked for."""

_sequence = itertools.count()

Fault = tuple[str, str]
"""Reason and message."""

_NO_VECTORS: Float32Array = np.zeros((0, 0), np.float32)


@dataclass(slots=True, eq=False)
class InflightText:
    """One distinct text under one policy; `tokens` is what it was estimated to cost.

    It waits `since` a time of the clock time.monotonic.
    """

    key: bytes
    text: str
    long_text: str = TRUNCATE
    tokens: int = 0
    calls: list[Call] = field(default_factory=list)
    windows: tuple[Window, ...] | None = None
    vectors: Float32Array = field(default_factory=lambda: _NO_VECTORS)
    missing: int = 0
    flag: Flag = Flag.NONE
    fault: Fault | None = None
    being_read: bool = False
    dropped: bool = False
    since: float = field(default_factory=time.monotonic)

    @property
    def can_be_dropped(self) -> bool:
        """Whether there is work left to save: a text not read, or a window not begun."""
        if self.windows is None:
            return not self.being_read
        return any(not window.taken for window in self.windows)

    def read(self, text: TokenizedText, dimensions: int) -> None:
        """Take the windows of the text."""
        self.windows = tuple(
            Window(token_ids, max(1, len(token_ids)), self, number)
            for number, token_ids in enumerate(text.windows)
        )
        for window in self.windows:
            window.estimate = self.tokens / len(self.windows)
        self.vectors = np.zeros((len(self.windows), dimensions), np.float32)
        self.missing = len(self.windows)
        self.flag, self.fault = text.flag, text.fault

    def release(self) -> None:
        """Part with calls and windows, which hold it in turn.

        Only a collection would free it else: a rare one, after 90,000 texts and 50 MB, since the
        frequent ones came by while it was in use.
        """
        self.calls, self.windows = [], ()


@dataclass(slots=True, eq=False)
class Window:
    """One window of an entry's text; it waits in one or two pools until it is taken, or dropped.

    `estimate` is its part of the entry's tokens.
    """

    token_ids: TokenIds
    length: int
    entry: InflightText
    number: int
    estimate: float = 0.0
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
class Call:
    """One call of `embed`: the entries it waits for, in the order of `wanted` texts.

    `cost` is what it added to the work, in tokens; `deadline` is when its sender stops waiting, on
    the clock of `time.monotonic`. `runs` is what was done for it, None where nobody
    collects that.
    """

    wanted: Sequence[int]
    entries: list[InflightText]
    interactive: bool
    waiter: asyncio.Future[None]
    sender: str = ""
    deadline: float | None = None
    cost: int = 0
    weight: float = 1.0
    left: int = 0
    gone: bool = False
    runs: list[StageRun] | None = None
    unread: deque[InflightText] = field(default_factory=deque)
    windows: CallWindows = field(init=False)

    def __post_init__(self) -> None:
        self.windows = CallWindows(self.sender, self.weight)

    @property
    def begun(self) -> bool:
        """Whether any of its windows runs, or has run."""
        return any(window.taken for entry in self.entries for window in entry.windows or ())

    def one_done(self) -> None:
        """Count an entry that has ended; the last one wakes the caller."""
        self.left -= 1
        if not self.left:
            self.wake(None)

    def wake(self, error: Exception | None) -> None:
        """Wake the caller from any thread, with an error if there is one."""

        def settle() -> None:
            if self.gone or self.waiter.done():
                return
            if error is None:
                self.waiter.set_result(None)
            else:
                self.waiter.set_exception(error)

        with suppress(RuntimeError):  # a loop that is closed has nobody left to wake
            self.waiter.get_loop().call_soon_threadsafe(settle)


@dataclass(slots=True, eq=False)
class CallWindows:
    """The windows of one call, the longest first; those taken by others are passed over.

    `call` is whose they are, from when it is let in until it ends: else the two would hold each
    other, and what they hold, until a collection.
    """

    sender: str = ""
    weight: float = 1.0
    call: Call | None = None
    heap: list[tuple[int, int, Window]] = field(default_factory=list)
    has_turn: bool = False

    def push(self, window: Window) -> None:
        """Add a window."""
        heapq.heappush(self.heap, (-window.length, next(_sequence), window))

    def pop(self) -> Window | None:
        """Return the longest window that still waits, without taking it."""
        while self.heap:
            window = heapq.heappop(self.heap)[2]
            if not window.taken:
                return window
        return None


def _never(_: object) -> bool:
    return False


class WindowPool:
    """Windows of calls of one class. Not safe for threads."""

    def __init__(self, *, in_turns: bool = True) -> None:
        """Let the calls of a sender take turns, or go one after the other."""
        self._in_turns = in_turns
        self._senders: RoundRobin[deque[CallWindows]] = RoundRobin(QUANTUM, deque)
        self._by_length: dict[int, dict[str, deque[Window]]] = {}
        """And by sender: one that several calls want is that of the first one's."""
        self._lengths: list[int] = []
        self._held, self._sweep_at = 0, SWEPT_FROM
        self.tokens = 0
        """Tokens of all windows that wait; 0 when none does."""

    def add(self, heap: CallWindows, windows: Iterable[Window]) -> None:
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
            self._held += 1
        if self._held > self._sweep_at:
            self._sweep()
        if heap.heap and not heap.has_turn:
            heap.has_turn = True
            self._senders.line(heap.sender, heap.weight).append(heap)

    def cut(
        self,
        budget: int,
        sharers: int = 1,
        refuse: Callable[[CallWindows], bool] = _never,
        whole: Callable[[str], bool] = _never,
    ) -> list[Window]:
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
        batch: list[Window] = []
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

    def cut_of(self, sender: str, budget: int) -> list[Window]:
        """Take windows of one sender alone, of whatever lengths: longest * count <= budget."""
        calls = self._senders.known(sender)
        batch: list[Window] = []
        longest = 0
        while calls is not None and (found := self._pop(calls, _never)):
            call, window = found
            longest = max(longest, window.length)
            if batch and longest * (len(batch) + 1) > budget:
                call.push(window)
                break
            self._take(window, batch)
        if batch and not self.tokens:
            self._clear()
        return batch

    def _next_seed(
        self, refuse: Callable[[CallWindows], bool]
    ) -> tuple[CallWindows, Window] | None:
        while (turn := self._senders.next()) is not None:
            sender, calls = turn
            if found := self._pop(calls, refuse):
                return found
            self._senders.leave(sender)
        return None

    def _pop(
        self, calls: deque[CallWindows], refuse: Callable[[CallWindows], bool]
    ) -> tuple[CallWindows, Window] | None:
        """Return the call whose turn it is and its longest window; None when none waits."""
        while calls:
            heap = calls.popleft()
            window = heap.pop()
            if window is not None and not refuse(heap):
                (calls.append if self._in_turns else calls.appendleft)(heap)
                return heap, window
            heap.has_turn = False
        return None

    def _take_rest(self, call: CallWindows, batch: list[Window], budget: int) -> None:
        """Take a call's other windows as long as they fit, the longest first."""
        longest = batch[0].length
        while longest * (len(batch) + 1) <= budget and (window := call.pop()):
            self._take(window, batch)

    def _fill(
        self,
        batch: list[Window],
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

    def _take(self, window: Window, batch: list[Window]) -> None:
        """Take a window into a batch; its sender is charged for it."""
        window.take()
        batch.append(window)
        self._senders.charge(window.sender, window.length)

    def _sweep(self) -> None:
        """Let go of windows that were taken otherwise, of lengths that no batch comes by."""
        held, self._by_length, self._held = self._by_length, {}, 0
        for length, senders in held.items():
            for sender, windows in senders.items():
                if left := deque(window for window in windows if not window.taken):
                    self._by_length.setdefault(length, {})[sender] = left
                    self._held += len(left)
        self._lengths = sorted(self._by_length)
        self._sweep_at = max(SWEPT_FROM, 2 * self._held)

    def _clear(self) -> None:
        """Let go of what was dropped or taken on another call's behalf."""
        for calls in self._senders:
            for heap in calls:
                heap.heap.clear()
                heap.has_turn = False
        self._senders.clear()
        self._by_length.clear()
        self._lengths.clear()
        self._held = 0
