"""The work of one model: a queue for all calls in flight, and the threads that do what is in it.

* What is let in, and who gives way, is up to `scheduling.admission`, which also says how large an
  interactive call may be; a larger one is batch work.
* Senders take turns by tokens, and interactive work goes first (`scheduling.round_robin`). While
  workers are busy with batch work one more worker, the express one, takes interactive work at once.
  It shares the cores with them, at a better priority.
  Interactive calls of a sender go one after the other: where they share, all are late. Its batch
  calls take turns.
* No linger: a batch holds whatever queued while the previous one ran. It begins with the longest
  window of the call whose turn it is, and is filled with windows of about that length, of that call
  and of those that come next, so that padding stays small.
* Each distinct text is an entry that no call owns. A text that several calls want is read and run
  once, in the first turn that any of them has. It is dropped when the last of them has gone before
  it runs.
* A batch that fails is tried once more in two halves; what fails again is the fault of its texts.
  After FAILURES_IN_A_ROW batches of which nothing came, a run of one plain text decides whether
  texts are to blame or the model is: a model that fails it too is in trouble until it can do that
  text again, which is tried every PROBE_S.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from judged_server import recorder, tracing
from judged_server.domain import Float32Array
from judged_server.embedding.base import EMBEDDING_FAILED, OVERLOADED, TRUNCATE
from judged_server.embedding.runtime.session import Session, finite_rows, pad
from judged_server.embedding.tokenizer import TokenIds, TokenizedText, WindowTokenizer
from judged_server.embedding.vector_cache import TextVectors
from judged_server.process import step_back
from judged_server.recorder import Stage
from judged_server.scheduling.admission import Admission, settle
from judged_server.scheduling.round_robin import FairQueue
from judged_server.tenant import ANYBODY, Sender

BATCH_TOKENS = 256
"""Tokens of one batch, padding included: more win no throughput and hold up the next one."""
PADDING_TOKENS = 16
"""How far the length of a window may be from that of the first one in its batch. A batch of its own
costs about as much as running these tokens, by measurement."""
LEAST_BUDGET = 32
"""Tokens below which sharing work among idle workers costs more than it wins."""
QUANTUM = 512
"""Tokens of a sender's turn: a small call whole."""
SLICE_CHARS = 16_384
"""Characters read in one go: about 5 ms."""
SLICE_TEXTS = 256
FAILURES_IN_A_ROW = 3
PROBE_S = 5.0

Fault = tuple[str, str]
"""Reason and message."""
ReportUnhealthy = Callable[[bool], None]
"""Told True when the model no longer runs, and False when it does again; on a worker's thread."""

_NOT_FINITE = (EMBEDDING_FAILED, "the model gave a vector that is not finite")
_RUN_FAILED = (EMBEDDING_FAILED, "the model could not be run on this text")
_NO_MEMORY = (OVERLOADED, "the memory did not suffice to run the model; send this text again later")
_NOT_READ = TokenizedText((), fault=(EMBEDDING_FAILED, "the tokenizer failed on this text"))
_MEMORY_WORDS = ("failed to allocate", "bad_alloc", "out of memory", "out_of_memory", "bad alloc")

_sequence = itertools.count()
logger = logging.getLogger(__name__)


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
    windows: Sequence[Window] | None = None
    vectors: TextVectors | None = None
    missing: int = 0
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

    def release(self) -> None:
        """Part with calls and windows, which hold it in turn: only a collection would free it."""
        self.calls, self.windows = [], ()


@dataclass(slots=True, eq=False)
class Window:
    """One window of an entry's text; `taken` once it runs or nobody waits for it."""

    token_ids: TokenIds
    entry: InflightText
    number: int
    taken: bool = False

    @property
    def length(self) -> int:
        """Its tokens, one at least."""
        return max(1, len(self.token_ids))


@dataclass(slots=True, eq=False)
class Call:
    """One call of `embed`, and the entries that it waits for.

    `cost` is what it added to the work, in tokens; `deadline` is when its sender stops waiting, on
    the clock of `time.monotonic`. `runs` is what was done for it, None where nobody collects that.
    """

    entries: list[InflightText]
    waiter: asyncio.Future[None]
    sender: Sender = ANYBODY
    deadline: float | None = None
    cost: int = 0
    left: int = 0
    gone: bool = False
    runs: list[tracing.StageRun] | None = None
    unread: deque[InflightText] = field(default_factory=deque)
    windows: list[tuple[int, int, Window]] = field(default_factory=list)
    """A heap of those that wait, the longest first; some may have been taken by other calls."""
    has_turn: bool = False

    @property
    def begun(self) -> bool:
        """Whether any of its windows runs, or has run."""
        return any(window.taken for entry in self.entries for window in entry.windows or ())

    def next_slice(self) -> list[InflightText]:
        """Take the texts to read next."""
        entries: list[InflightText] = []
        chars = 0
        while self.unread and len(entries) < SLICE_TEXTS:
            entry = self.unread[0]
            waits = entry.windows is None and not entry.being_read and not entry.dropped
            if waits and entries and chars + len(entry.text) > SLICE_CHARS:
                break
            self.unread.popleft()
            if waits:
                entry.being_read = True
                entries.append(entry)
                chars += len(entry.text) + 1
        return entries

    def fill(self, batch: list[Window], budget: int) -> int:
        """Take the windows that fit into a batch; return their tokens.

        The longest ones that wait, as long as they are about as long as the first of the batch, and
        longest * count <= budget. An empty batch gets one whatever its length.
        """
        tokens = 0
        longest = max((window.length for window in batch), default=0)
        while self.windows:
            window = self.windows[0][2]
            if not window.taken:
                longest = max(longest, window.length)
                if batch and (
                    longest * (len(batch) + 1) > budget
                    or abs(window.length - batch[0].length) > PADDING_TOKENS
                ):
                    break
                window.taken = True
                batch.append(window)
                tokens += window.length
            heapq.heappop(self.windows)
        return tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows that run together; `is_full` says that more of their class was there."""

    windows: Sequence[Window]
    is_batch_work: bool = False
    is_full: bool = False


class WorkQueue:
    """The work between the calls that want it and the threads that do it.

    Safe for threads, by one lock that is never held while a model or a tokenizer runs.
    """

    def __init__(self, dimensions: int, admission: Admission[Call], batch_tokens: int = 0) -> None:
        """Cut batches of at most `batch_tokens`, or BATCH_TOKENS when it is 0."""
        self._batch_tokens = batch_tokens or BATCH_TOKENS
        self._dimensions = dimensions
        self._admission = admission
        self._lock = threading.Lock()
        self._texts_come = threading.Condition(self._lock)
        self._windows_come = threading.Condition(self._lock)
        self._entries: dict[bytes, InflightText] = {}
        self._calls: set[Call] = set()
        self._unread: FairQueue[Call] = FairQueue(QUANTUM)
        self._ready: FairQueue[Call] = FairQueue(QUANTUM)
        self._waiting_tokens = 0
        """Of all windows that wait, each counted once."""
        self._idle = self._busy_with_batch_work = 0
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
            call.cost = sum(each.tokens for each in call.entries if each.key not in self._entries)
            for victim in self._admission.admit(call, time.monotonic()):
                self._refuse(victim)
            call.entries = [self._entries.setdefault(each.key, each) for each in call.entries]
            call.left = len(call.entries)
            self._calls.add(call)
            for entry in call.entries:
                entry.calls.append(call)
                if entry.windows is None:
                    call.unread.append(entry)
                else:
                    self._let_wait(call, entry.windows)
            if call.unread:
                self._unread.put(call, call.sender)
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
                senders = self._unread.turn()
                call = senders.first()
                if call is None:
                    self._texts_come.wait()
                    continue
                entries = call.next_slice()
                tokens = sum(entry.tokens for entry in entries)
                if call.unread:
                    senders.charge(tokens, to_the_end=True)
                else:
                    senders.take(tokens)
                if entries:
                    return entries
            return None

    def put_windows(self, entries: Sequence[InflightText], texts: Sequence[TokenizedText]) -> None:
        """Let the windows of texts that were read wait for a worker."""
        ended = []
        with self._lock:
            for entry, text in zip(entries, texts, strict=True):
                entry.being_read = False
                entry.fault, entry.missing = text.fault, len(text.windows)
                entry.windows = [Window(ids, entry, n) for n, ids in enumerate(text.windows)]
                rows = np.zeros((entry.missing, self._dimensions), np.float32)
                entry.vectors = TextVectors(rows, int(text.flag))
                self._waiting_tokens += sum(window.length for window in entry.windows)
                if entry.fault is not None or not entry.windows:
                    ended.append(entry)
                    continue
                if self._closed or not entry.calls:
                    self._drop(entry)
                for call in entry.calls:
                    self._let_wait(call, entry.windows)
            self._end(ended)
            self._windows_come.notify_all()

    def take_batch(self, timeout_s: float | None = None, *, express: bool = False) -> Batch | None:
        """Return the next batch; without windows after `timeout_s` in vain, None when closed."""
        with self._lock:
            while not self._closed:
                if (batch := self._cut(express)).windows:
                    return batch
                self._idle += not express
                woken = self._windows_come.wait(timeout_s)
                self._idle -= not express
                if not woken:
                    return batch
            return None

    def finish(
        self,
        batch: Batch,
        results: Sequence[Float32Array | Fault],
        keep: Callable[[Sequence[InflightText]], None],
    ) -> None:
        """Give windows their vectors, or the fault of their text.

        `keep` gets the entries that ended well, before anybody can ask for them anew.
        """
        ended = []
        with self._lock:
            self._busy_with_batch_work -= batch.is_batch_work
            for window, result in zip(batch.windows, results, strict=True):
                entry = window.entry
                if isinstance(result, tuple):
                    entry.fault = entry.fault or result
                elif entry.vectors is not None:
                    entry.vectors.rows[window.number] = result
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
        entries = [window.entry for window in batch.windows]
        with self._lock:
            tokens = sum(entry.tokens / max(1, len(entry.windows or ())) for entry in entries)
            self._admission.measured(tokens, seconds, workers, full=batch.is_full)

    def close(self) -> None:
        """Wake everybody. Calls end with RuntimeError unless all they wait for is running."""
        with self._lock:
            self._closed = True
            for call in self._calls:
                if any(entry.being_read or entry.can_be_dropped for entry in call.entries):
                    settle(call.waiter, None, RuntimeError("the embedder was closed"))
            self._texts_come.notify_all()
            self._windows_come.notify_all()

    def _let_wait(self, call: Call, windows: Iterable[Window]) -> None:
        for window in windows:
            if not window.taken:
                heapq.heappush(call.windows, (-window.length, next(_sequence), window))
        if call.windows and not call.has_turn:
            call.has_turn = True
            self._ready.put(call, call.sender)

    def _cut(self, express: bool) -> Batch:
        """Take a batch; an idle worker leaves their part of what little there is to the others."""
        if express and (self._idle or not self._busy_with_batch_work):
            return Batch(())
        budget = self._batch_tokens
        if self._idle:
            share = -(-self._waiting_tokens // (self._idle + 1))
            budget = min(budget, max(LEAST_BUDGET, share))
        senders = self._ready.interactive if express else self._ready.turn()
        batch: list[Window] = []
        while (call := senders.first()) is not None:
            if not batch and self._admission.is_late(call, time.monotonic()):
                self._refuse(call)
            tokens = call.fill(batch, budget)
            self._waiting_tokens -= tokens
            if not call.windows:
                call.has_turn = False
                senders.take(tokens)
            elif tokens:
                senders.charge(tokens, to_the_end=call.sender.is_batch)
            else:
                break
        is_batch_work = bool(batch) and senders is not self._ready.interactive
        self._busy_with_batch_work += is_batch_work
        if is_batch_work and self._ready.interactive:
            self._windows_come.notify_all()  # for the express worker
        return Batch(batch, is_batch_work, is_full=len(senders) > 0)

    def _leave(self, call: Call) -> None:
        if call not in self._calls:
            return
        self._forget_call(call)
        call.unread.clear()
        call.windows.clear()
        for entry in call.entries:
            if call in entry.calls:
                entry.calls.remove(call)
            if not entry.calls and not entry.dropped and entry.can_be_dropped:
                self._drop(entry)

    def _refuse(self, call: Call) -> None:
        """Take a call out that has not begun, and tell its sender."""
        if call in self._calls:
            self._leave(call)
            settle(call.waiter, None, self._admission.overloaded(call))

    def _forget_call(self, call: Call) -> None:
        self._calls.discard(call)
        self._admission.left(call)

    def _end(self, entries: Sequence[InflightText]) -> None:
        for entry in entries:
            if entry.dropped:
                continue
            self._forget(entry)
            for call in entry.calls:
                call.left -= 1
                if not call.left:
                    self._forget_call(call)
                    settle(call.waiter, None, None)
            entry.release()

    def _drop(self, entry: InflightText) -> None:
        entry.dropped = True
        self._forget(entry)
        for window in entry.windows or ():
            if not window.taken:
                window.taken = True
                self._waiting_tokens -= window.length
        entry.release()

    def _forget(self, entry: InflightText) -> None:
        if self._entries.get(entry.key) is entry:
            del self._entries[entry.key]


class Workers:
    """Threads that do the work of a queue from `start` until the queue is closed.

    One reads texts, one is the express one, and the others run batches.
    """

    def __init__(
        self,
        name: str,
        queue: WorkQueue,
        tokenizer: WindowTokenizer,
        session: Session,
        keep: Callable[[Sequence[InflightText]], None],
        report_unhealthy: ReportUnhealthy,
    ) -> None:
        self._queue = queue
        self._tokenizer = tokenizer
        self._session = session
        self._keep = keep
        self._report_unhealthy = report_unhealthy
        self._count = session.facts.workers
        self._failures = 0
        self._unhealthy = False
        self._judging = threading.Lock()
        jobs = [("tokenize", self._read), ("express", lambda: self._work(express=True))]
        jobs += [("embed", self._work)] * self._count
        self._threads = [
            threading.Thread(target=job, name=f"{role}-{name}", daemon=True) for role, job in jobs
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Return when every thread has ended; the queue must be closed."""
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _read(self) -> None:
        while (entries := self._queue.take_texts()) is not None:
            begun = time.monotonic()
            _note("queue", begun - entries[0].since, entries)
            try:
                texts = [entry.text for entry in entries]
                windows = self._tokenizer.encode(texts, entries[0].long_text)
                _note("tokenize", time.monotonic() - begun, entries)
                self._queue.put_windows(entries, windows)
            except BaseException:  # a panic in Rust is no Exception, and the thread must live
                logger.exception("%d texts could not be tokenised", len(entries))
                self._queue.put_windows(entries, [_NOT_READ] * len(entries))

    def _work(self, *, express: bool = False) -> None:
        if not express:
            step_back()
        while True:
            patience = PROBE_S if self._unhealthy and not express else None
            batch = self._queue.take_batch(patience, express=express)
            if batch is None:
                return
            if batch.windows:
                self._do(batch)
            elif self._unhealthy:
                self._judge()

    def _do(self, batch: Batch) -> None:
        windows = batch.windows
        results: list[Float32Array | Fault] = []
        try:
            begun = time.monotonic()
            results = self._run(windows)
            took = time.monotonic() - begun
            _note("infer", took, [window.entry for window in windows])
            if not any(isinstance(result, tuple) for result in results):
                self._queue.measured(batch, took, self._count)
            if _failed(results[0]) and len(windows) > 1:
                # One text may be to blame, or memory may be short: two halves, then give up.
                middle = -(-len(windows) // 2)
                results = self._run(windows[:middle]) + self._run(windows[middle:])
        finally:
            results = results or [_RUN_FAILED] * len(windows)
            self._queue.finish(batch, results, self._keep)
            self._count_failures(failed=all(map(_failed, results)))

    def _run(self, windows: Sequence[Window]) -> list[Float32Array | Fault]:
        """Return a vector or a fault for each window; all have the same fault if none could run."""
        token_ids, mask = pad([window.token_ids for window in windows], self._tokenizer.pad_id)
        try:
            vectors = self._session.run(token_ids, mask)
        except BaseException as error:  # whatever a runtime throws, the thread must live
            logger.exception("a batch of shape %s failed", token_ids.shape)
            return [_NO_MEMORY if _is_memory(error) else _RUN_FAILED] * len(windows)
        finite = finite_rows(vectors).tolist()
        return [vectors[i] if good else _NOT_FINITE for i, good in enumerate(finite)]

    def _count_failures(self, *, failed: bool) -> None:
        with self._judging:
            self._failures = self._failures + 1 if failed else 0
            suspicious = self._failures >= FAILURES_IN_A_ROW
        if suspicious if failed else self._unhealthy:
            self._judge()

    def _judge(self) -> None:
        """Run a plain text, and say so when that changes whether the model is in trouble."""
        with self._judging:
            unhealthy = not self._runs()
            self._failures = 0
            if unhealthy == self._unhealthy:
                return
            self._unhealthy = unhealthy
            if unhealthy:
                logger.error("the model does not run any more; it is tried every %g s", PROBE_S)
            else:
                logger.warning("the model runs again")
            self._report_unhealthy(unhealthy)

    def _runs(self) -> bool:
        try:
            (text,) = self._tokenizer.encode(["a"], TRUNCATE)
            vectors = self._session.run(*pad(text.windows, self._tokenizer.pad_id))
        except BaseException:  # noqa: BLE001 - any failure is the answer
            return False
        return bool(finite_rows(vectors).all() and np.any(vectors))


def _failed(result: Float32Array | Fault) -> bool:
    """Whether a window's batch could not run."""
    return isinstance(result, tuple) and result in {_RUN_FAILED, _NO_MEMORY}


def _is_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(word in text for word in _MEMORY_WORDS)


def _note(stage: Stage, seconds: float, entries: Sequence[InflightText]) -> None:
    """Note what was just done, and for which calls, where that is collected."""
    if recorder.active is not None:
        recorder.active.stage(stage, seconds)
    if tracing.active is not None:
        run = tracing.StageRun(stage, time.time_ns(), seconds)
        for call in {call for entry in entries for call in tuple(entry.calls)}:
            if call.runs is not None:
                call.runs.append(run)
