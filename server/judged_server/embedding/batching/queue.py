"""One queue of one model, for all calls in flight: texts to read, then windows to run.

* What is let in, and who gives way, is up to `scheduling.admission`, which also says how large an
  interactive call may be; a larger one is batch work. Workers take interactive work first, yet
  after INTERACTIVE_IN_A_ROW turns the batch work that waits has one.
* While all workers are busy, one of them with batch work or all with that of a busy sender, one
  more worker, the express one, takes interactive work, that of senders who have little, at once. It
  shares the cores with them, at a better priority, for a small batch's length: a request then waits
  for no batch of others to end.
* Within a class senders take turns, and the calls of each, batch by batch, see `windows`. No
  linger: a batch is what has come while the last one ran.
* A text that several calls want is read and run once, in the first turn that any of them has. It is
  dropped when the last of them has gone before it runs.

Safe for threads, by one lock that is never held while a model or a tokenizer runs.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judged_server.domain import Float32Array
from judged_server.embedding.base import EMBEDDING_FAILED
from judged_server.embedding.batching.windows import (
    Call,
    CallWindows,
    Fault,
    InflightText,
    Window,
    WindowPool,
)
from judged_server.embedding.tokenizer import TokenizedText
from judged_server.scheduling.admission import Admission
from judged_server.scheduling.round_robin import BATCH, BATCH_TURNS, INTERACTIVE, ClassOrder

BATCH_TOKENS = 256
"""Tokens of one batch, padding included: more win no throughput and hold up the next one."""
INTERACTIVE_IN_A_ROW = BATCH_TURNS - 1
SLICE_CHARS = 16_384
"""Characters read in one go: about 5 ms."""
SLICE_TEXTS = 256


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows that run together, and the class of work they were taken as.

    `is_full` says that more was there than the batch could take.
    """

    windows: Sequence[Window]
    turn: int
    is_full: bool = False


class WorkQueue:
    """The work of one model between the calls that want it and the threads that do it."""

    def __init__(self, dimensions: int, admission: Admission[Call], batch_tokens: int = 0) -> None:
        """Cut batches of at most `batch_tokens`, or BATCH_TOKENS when it is 0."""
        self._batch_tokens = batch_tokens
        self._dimensions = dimensions
        self._admission = admission
        self._lock = threading.Lock()
        self._texts_come = threading.Condition(self._lock)
        self._windows_come = threading.Condition(self._lock)
        self._entries: dict[bytes, InflightText] = {}
        self._calls: set[Call] = set()
        self._unread: tuple[deque[Call], deque[Call]] = (deque(), deque())
        self._pools = (WindowPool(in_turns=False), WindowPool())
        self._reading = ClassOrder(INTERACTIVE_IN_A_ROW)
        self._running = ClassOrder(INTERACTIVE_IN_A_ROW)
        self._idle = 0
        self._busy_with = [0, 0]
        self._closed = False

    def submit(self, call: Call) -> None:
        """Take a call in; its waiter is woken when all its entries have ended.

        A text that is in flight already is replaced by that one. Calls that must give way to it
        are woken with Overloaded. Raises Overloaded or DeadlineTooShort, or RuntimeError when the
        queue is closed.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("the embedder was closed")
            if call.gone:
                return
            known = self._entries.get
            call.cost = sum(f.tokens for f in call.entries if known(f.key) is None)
            for victim in self._admission.admit(call, time.monotonic()):
                self._refuse(victim, self._admission.overloaded(victim))
            call.entries = [self._entries.setdefault(f.key, f) for f in call.entries]
            call.left = len(call.entries)
            call.windows.call = call
            self._calls.add(call)
            pool = self._pools[INTERACTIVE if call.interactive else BATCH]
            for entry in call.entries:
                entry.calls.append(call)
                if entry.windows is None:
                    call.unread.append(entry)
                else:
                    pool.add(call.windows, entry.windows)
            if call.unread:
                self._unread[INTERACTIVE if call.interactive else BATCH].append(call)
            self._texts_come.notify()
            self._windows_come.notify_all()

    def leave(self, call: Call) -> None:
        """Take a call out: what only it waited for is dropped, unless it is running already."""
        with self._lock:
            call.gone = True
            self._leave(call)

    def take_texts(self) -> list[InflightText] | None:
        """Return the next texts to read, of one call and policy; None when the queue is closed."""
        with self._lock:
            while not self._closed:
                turn = self._reading.next(*(bool(calls) for calls in self._unread))
                if turn is None:
                    self._texts_come.wait()
                elif entries := self._next_slice(self._unread[turn]):
                    return entries
            return None

    def put_windows(self, entries: Sequence[InflightText], texts: Sequence[TokenizedText]) -> None:
        """Let the windows of texts that were read wait for a worker."""
        ended = []
        with self._lock:
            for entry, text in zip(entries, texts, strict=True):
                entry.being_read = False
                entry.read(text, self._dimensions)
                if entry.fault is not None or not entry.windows:
                    ended.append(entry)
                    continue
                if self._closed or not entry.calls:
                    self._drop(entry)
                for call in entry.calls:
                    pool = self._pools[INTERACTIVE if call.interactive else BATCH]
                    pool.add(call.windows, entry.windows)
            self._end(ended)
            self._windows_come.notify_all()

    def take_batch(self, express: bool, timeout_s: float | None = None) -> Batch | None:
        """Return the next batch; without windows after `timeout_s` in vain, None when closed."""
        with self._lock:
            while not self._closed:
                batch = self._cut(express)
                if batch is not None:
                    return batch
                self._idle += not express
                woken = self._windows_come.wait(timeout_s)
                self._idle -= not express
                if not woken:
                    return Batch((), BATCH)
            return None

    def finish(
        self,
        batch: Batch,
        results: Sequence[Float32Array | Fault],
        keep: Callable[[Sequence[InflightText]], None],
    ) -> None:
        """Give windows their vectors, or the fault of their text, and free the worker.

        `keep` gets the entries that ended well, before anybody can ask for them anew.
        """
        ended = []
        with self._lock:
            self._busy_with[batch.turn] -= 1
            for window, result in zip(batch.windows, results, strict=True):
                entry = window.entry
                if isinstance(result, tuple):
                    entry.fault = entry.fault or result
                else:
                    entry.vectors[window.number] = result
                entry.missing -= 1
                if not entry.missing and not entry.dropped:
                    ended.append(entry)
        try:
            keep([entry for entry in ended if entry.fault is None])
        finally:
            with self._lock:
                self._end(ended)

    def measured(self, batch: Batch, seconds: float, workers: int) -> None:
        """Learn how fast one of the workers is."""
        with self._lock:
            tokens = sum(window.estimate for window in batch.windows)
            self._admission.measured(tokens, seconds, workers, full=batch.is_full)

    def fail_texts(self, entries: Sequence[InflightText], message: str) -> None:
        """End entries whose texts could not be read."""
        faulty = TokenizedText((), fault=(EMBEDDING_FAILED, message))
        self.put_windows(entries, [faulty] * len(entries))

    def close(self) -> None:
        """Wake everybody. Calls end with RuntimeError unless all they wait for is running."""
        with self._lock:
            self._closed = True
            for call in self._calls:
                if any(entry.being_read or entry.can_be_dropped for entry in call.entries):
                    call.wake(RuntimeError("the embedder was closed"))
            self._texts_come.notify_all()
            self._windows_come.notify_all()

    def _leave(self, call: Call) -> None:
        if call not in self._calls:
            return
        self._forget_call(call)
        for entry in call.entries:
            if call in entry.calls:
                entry.calls.remove(call)
            if not entry.calls and not entry.dropped and entry.can_be_dropped:
                self._drop(entry)

    def _refuse(self, call: Call, error: Exception) -> None:
        """Take a call out that has not begun, and tell its sender."""
        self._leave(call)
        call.wake(error)

    def _drop_late(self, windows: CallWindows) -> bool:
        """Drop a call whose turn has come too late; say whether it was."""
        call = windows.call
        if call is None or not self._admission.is_late(call, time.monotonic()):
            return False
        self._refuse(call, self._admission.overloaded(call))
        return True

    def _forget_call(self, call: Call) -> None:
        self._calls.discard(call)
        self._admission.left(call)
        call.windows.call = None

    def _next_slice(self, calls: deque[Call]) -> list[InflightText]:
        """Take a slice of the first call's texts; the call goes to the end of the line."""
        call = calls.popleft()
        entries: list[InflightText] = []
        chars = 0
        while call.unread and len(entries) < SLICE_TEXTS and not call.gone:
            entry = call.unread[0]
            if entry.windows is not None or entry.being_read or entry.dropped:
                call.unread.popleft()
                continue
            if entries and chars + len(entry.text) > SLICE_CHARS:
                break
            call.unread.popleft()
            entry.being_read = True
            entries.append(entry)
            chars += len(entry.text) + 1
        if call.unread and not call.gone:
            calls.append(call)
        return entries

    def _cut(self, express: bool) -> Batch | None:
        """Take a batch, if there is one for this worker."""
        interactive, batch = (pool.tokens > 0 for pool in self._pools)
        budget = self._batch_tokens or BATCH_TOKENS
        waiting: list[Window] = []
        turn: int | None = INTERACTIVE
        if not express:
            turn = self._running.next(interactive, batch)
            if turn == INTERACTIVE:
                light = self._admission.light_senders().__contains__
                waiting = self._pools[turn].cut(budget, self._idle + 1, self._drop_late, light)
            elif turn is not None:
                waiting = self._pools[turn].cut(budget, self._idle + 1, self._drop_late)
        elif interactive and not self._idle:
            if self._busy_with[BATCH]:
                waiting = self._pools[INTERACTIVE].cut(budget, 1, self._drop_late)
            else:
                waiting = self._cut_light(budget)
        if turn is None or not waiting:
            return None
        self._busy_with[turn] += 1
        if self._pools[INTERACTIVE].tokens:
            self._windows_come.notify_all()  # with this worker busy, the express one may be useful
        return Batch(waiting, turn, self._pools[turn].tokens > 0)

    def _cut_light(self, budget: int) -> list[Window]:
        """Take a batch of a sender who has little in work while another one keeps all busy."""
        for sender in self._admission.light_senders():
            if waiting := self._pools[INTERACTIVE].cut_of(sender, budget):
                return waiting
        return []

    def _end(self, entries: Sequence[InflightText]) -> None:
        for entry in entries:
            if entry.dropped:
                continue
            self._forget(entry)
            for call in entry.calls:
                if call.left == 1:
                    self._forget_call(call)
                call.one_done()
            entry.release()

    def _drop(self, entry: InflightText) -> None:
        entry.dropped = True
        self._forget(entry)
        for window in entry.windows or ():
            window.take()
        entry.release()

    def _forget(self, entry: InflightText) -> None:
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]
