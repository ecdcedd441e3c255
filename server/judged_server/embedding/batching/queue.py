"""One queue of one model, for all calls in flight: texts to read, then windows to run.

Owns which call comes next, at both stages:

* A call of at most INTERACTIVE_TOKENS is interactive, a larger one is batch work. Workers take
  interactive work first, yet after INTERACTIVE_IN_A_ROW turns the batch work that waits has one.
* While all workers are busy and one of them with batch work, one more worker, the express one,
  takes interactive work at once. It shares the cores with them, at a better priority, for a small
  batch's length: a request then waits for no batch of others to end.
* Within a class calls take turns, batch by batch, see `cutting`. Nothing waits for company: a batch
  is what has come while the last one ran.
* A text that several calls want is read and run once, in the first turn that any of them has. It is
  dropped when the last of them has gone before it runs.

Safe for threads, by one lock that is never held while a model or a tokenizer runs.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from judged_server.domain import Float32Array
from judged_server.embedding.batching.backlog import Backlog
from judged_server.embedding.batching.cutting import WindowPool
from judged_server.embedding.batching.inflight import Call, Fault, Flight, Window
from judged_server.embedding.policy import EMBEDDING_FAILED
from judged_server.embedding.tokenizer import TokenizedText

BATCH_TOKENS = 256
"""Tokens of one batch, padding included: more win no throughput and hold up the next one."""
INTERACTIVE_TOKENS = 4_096
"""About .4 s of work for two cores."""
INTERACTIVE_IN_A_ROW = 7
SLICE_CHARS = 16_384
"""Characters read in one go: about 5 ms."""
SLICE_TEXTS = 256

INTERACTIVE, BATCH = 0, 1


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows that run together, and the class of work they were taken as."""

    windows: Sequence[Window]
    turn: int


class _Turns:
    """Whose turn it is: interactive work, with a turn for batch work now and then."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def next(self, interactive: bool, batch: bool) -> int | None:
        if interactive and not (batch and self._in_a_row >= INTERACTIVE_IN_A_ROW):
            self._in_a_row += batch
            return INTERACTIVE
        self._in_a_row = 0
        return BATCH if batch else None


class WorkQueue:
    """The work of one model between the calls that want it and the threads that do it."""

    def __init__(self, dimensions: int, backlog: Backlog, batch_tokens: int = 0) -> None:
        """Cut batches of at most `batch_tokens`, or BATCH_TOKENS when it is 0."""
        self._batch_tokens = batch_tokens
        self._dimensions = dimensions
        self._backlog = backlog
        self._lock = threading.Lock()
        self._texts_come = threading.Condition(self._lock)
        self._windows_come = threading.Condition(self._lock)
        self._flights: dict[bytes, Flight] = {}
        self._calls: set[Call] = set()
        self._unread: tuple[deque[Call], deque[Call]] = (deque(), deque())
        self._pools = (WindowPool(), WindowPool())
        self._reading, self._running = _Turns(), _Turns()
        self._idle = 0
        self._busy_with = [0, 0]
        self._closed = False

    def submit(self, call: Call) -> None:
        """Take a call in; its waiter is woken when all its flights have ended.

        A flight whose text is in flight already is replaced by that one. Raises Overloaded, or
        RuntimeError when the queue is closed.
        """
        with self._lock:
            if self._closed:
                raise RuntimeError("the embedder was closed")
            if call.gone:
                return
            known = self._flights.get
            self._backlog.admit(sum(f.tokens for f in call.flights if known(f.key) is None))
            call.flights = [self._flights.setdefault(f.key, f) for f in call.flights]
            call.left = len(call.flights)
            self._calls.add(call)
            pool = self._pools[INTERACTIVE if call.interactive else BATCH]
            for flight in call.flights:
                flight.calls.append(call)
                if flight.windows is None:
                    call.unread.append(flight)
                else:
                    pool.add(call.windows, flight.windows)
            if call.unread:
                self._unread[INTERACTIVE if call.interactive else BATCH].append(call)
            self._texts_come.notify()
            self._windows_come.notify_all()

    def leave(self, call: Call) -> None:
        """Take a call out: what only it waited for is dropped, unless it is running already."""
        with self._lock:
            call.gone = True
            if call not in self._calls:
                return
            self._calls.discard(call)
            for flight in call.flights:
                if call in flight.calls:
                    flight.calls.remove(call)
                if not flight.calls and not flight.dropped and flight.can_be_dropped:
                    self._drop(flight)

    def take_texts(self) -> list[Flight] | None:
        """Return the next texts to read, of one call and policy; None when the queue is closed."""
        with self._lock:
            while not self._closed:
                turn = self._reading.next(*(bool(calls) for calls in self._unread))
                if turn is None:
                    self._texts_come.wait()
                elif flights := self._next_slice(self._unread[turn]):
                    return flights
            return None

    def put_windows(self, flights: Sequence[Flight], texts: Sequence[TokenizedText]) -> None:
        """Let the windows of texts that were read wait for a worker."""
        ended = []
        with self._lock:
            for flight, text in zip(flights, texts, strict=True):
                flight.being_read = False
                flight.read(text, self._dimensions)
                if flight.fault is not None or not flight.windows:
                    ended.append(flight)
                    continue
                if self._closed or not flight.calls:
                    self._drop(flight)
                for call in flight.calls:
                    pool = self._pools[INTERACTIVE if call.interactive else BATCH]
                    pool.add(call.windows, flight.windows)
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
        keep: Callable[[Sequence[Flight]], None],
    ) -> None:
        """Give windows their vectors, or the fault of their text, and free the worker.

        `keep` gets the flights that ended well, before anybody can ask for them anew.
        """
        ended = []
        with self._lock:
            self._busy_with[batch.turn] -= 1
            for window, result in zip(batch.windows, results, strict=True):
                flight = window.flight
                if isinstance(result, tuple):
                    flight.fault = flight.fault or result
                else:
                    flight.vectors[window.number] = result
                flight.missing -= 1
                if not flight.missing and not flight.dropped:
                    ended.append(flight)
        try:
            keep([flight for flight in ended if flight.fault is None])
        finally:
            with self._lock:
                self._end(ended)

    def measured(self, tokens: int, seconds: float, workers: int) -> None:
        """Learn how fast one of the workers is."""
        with self._lock:
            self._backlog.measured(tokens, seconds, workers)

    def fail_texts(self, flights: Sequence[Flight], message: str) -> None:
        """End flights whose texts could not be read."""
        faulty = TokenizedText((), fault=(EMBEDDING_FAILED, message))
        self.put_windows(flights, [faulty] * len(flights))

    def close(self) -> None:
        """Wake everybody. Calls end with RuntimeError unless all they wait for is running."""
        with self._lock:
            self._closed = True
            for call in self._calls:
                if any(flight.being_read or flight.can_be_dropped for flight in call.flights):
                    call.wake(RuntimeError("the embedder was closed"))
            self._texts_come.notify_all()
            self._windows_come.notify_all()

    def _next_slice(self, calls: deque[Call]) -> list[Flight]:
        """Take a slice of the first call's texts; the call goes to the end of the line."""
        call = calls.popleft()
        flights: list[Flight] = []
        chars = 0
        while call.unread and len(flights) < SLICE_TEXTS and not call.gone:
            flight = call.unread[0]
            if flight.windows is not None or flight.being_read or flight.dropped:
                call.unread.popleft()
                continue
            if flights and chars + len(flight.text) > SLICE_CHARS:
                break
            call.unread.popleft()
            flight.being_read = True
            flights.append(flight)
            chars += len(flight.text) + 1
        if call.unread and not call.gone:
            calls.append(call)
        return flights

    def _cut(self, express: bool) -> Batch | None:
        """Take a batch, if there is one for this worker."""
        interactive, batch = (pool.tokens > 0 for pool in self._pools)
        if express:
            useful = interactive and not self._idle and self._busy_with[BATCH]
            turn = INTERACTIVE if useful else None
        else:
            turn = self._running.next(interactive, batch)
        if turn is None:
            return None
        waiting = self._pools[turn].cut(
            self._batch_tokens or BATCH_TOKENS, 1 if express else self._idle + 1
        )
        self._busy_with[turn] += 1
        if self._pools[INTERACTIVE].tokens:
            self._windows_come.notify_all()  # with this worker busy, the express one may be useful
        return Batch(cast("list[Window]", waiting), turn)

    def _end(self, flights: Sequence[Flight]) -> None:
        for flight in flights:
            if flight.dropped:
                continue
            self._forget(flight)
            for call in flight.calls:
                call.one_done()
                if not call.left:
                    self._calls.discard(call)
            flight.let_go()

    def _drop(self, flight: Flight) -> None:
        flight.dropped = True
        self._forget(flight)
        for window in flight.windows or ():
            window.take()
        flight.let_go()

    def _forget(self, flight: Flight) -> None:
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]
            self._backlog.release(flight.tokens)
