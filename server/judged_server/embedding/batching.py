"""The queue of one model's work, and the threads that run it in batches.

* Admission is up to `scheduling.fairness`, which also limits the size of an interactive call; a
  larger one is batch work.
* Senders take turns by tokens, and interactive work goes first (`scheduling.fairness`). While the
  workers are busy with batch work, one more worker, the express worker, takes interactive work at
  once. It shares the cores with them, at a higher priority.
  Interactive calls of a sender run one after the other: if they took turns, all would be late. Its
  batch calls take turns.
* Batches don't wait to fill up: a batch has what queued while the previous one ran. It begins with
  the longest window of the call whose turn it is, and is filled with windows of about that length,
  of that call and of the next ones, so that padding stays small.
* A batch that fails is retried once in two halves; if a half fails too, its texts get a fault.
  After FAILURES_IN_A_ROW failed batches a plain text is run, to tell whether the texts or the model
  are at fault. If that fails too, the model is unhealthy until the text succeeds; it is run again
  every PROBE_S.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from judged_server import telemetry
from judged_server.domain import Float32Array
from judged_server.embedding.base import EMBEDDING_FAILED, OVERLOADED, TRUNCATE
from judged_server.embedding.runtime.session import Session, finite_rows, pad
from judged_server.embedding.tokenizer import TokenIds, TokenizedText, WindowTokenizer
from judged_server.embedding.vector_cache import TextVectors
from judged_server.process import step_back
from judged_server.scheduling.fairness import Admission, FairQueue, settle
from judged_server.telemetry import Stage
from judged_server.tenant import ANYBODY, Sender

BATCH_TOKENS = 256
"""Tokens of one batch, padding included: more add no throughput and delay the next batch."""
PADDING_TOKENS = 16
"""How much the length of a window may differ from that of the first one in its batch. Another batch
costs about as much as running these tokens, by measurement."""
LEAST_BUDGET = 32
"""Tokens below which sharing work among idle workers costs more than it saves."""
QUANTUM = 512
"""Tokens of a sender's turn: enough for a small call."""
FAILURES_IN_A_ROW = 3
PROBE_S = 5.0

Fault = tuple[str, str]
"""Reason and message."""
ReportUnhealthy = Callable[[bool], None]
"""Called with True when the model stops working, False when it works again; on a worker thread."""

_NOT_FINITE = (EMBEDDING_FAILED, "the model gave a vector that is not finite")
_RUN_FAILED = (EMBEDDING_FAILED, "the model could not be run on this text")
_NO_MEMORY = (OVERLOADED, "the memory did not suffice to run the model; send this text again later")
_MEMORY_WORDS = ("failed to allocate", "bad_alloc", "out of memory", "out_of_memory", "bad alloc")

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Text:
    """One text of a call: its vectors so far, and how many are missing."""

    key: bytes
    vectors: TextVectors
    missing: int
    fault: Fault | None = None


@dataclass(slots=True, eq=False)
class Window:
    """One window of a text of a call."""

    token_ids: TokenIds
    number: int
    text: _Text
    call: Call

    @property
    def length(self) -> int:
        """The number of its tokens, at least 1."""
        return max(1, len(self.token_ids))


@dataclass(slots=True, eq=False)
class Call:
    """One call of `embed`: the results of its texts, and its waiting windows, the longest last.

    `cost` is its work in tokens; `deadline` is when its sender stops waiting, by `time.monotonic`.
    `left` counts its unfinished texts. `runs` are its finished stages, None if it is not traced.
    """

    waiter: asyncio.Future[None]
    sender: Sender = ANYBODY
    deadline: float | None = None
    cost: int = 0
    windows: list[Window] = field(default_factory=list)
    vectors: dict[bytes, TextVectors] = field(default_factory=dict)
    faults: dict[bytes, Fault] = field(default_factory=dict)
    left: int = 0
    begun: bool = False
    gone: bool = False
    runs: list[telemetry.StageRun] | None = None
    since: float = field(default_factory=time.monotonic)

    def add(self, key: bytes, text: TokenizedText, dimensions: int) -> None:
        """Add a tokenised text."""
        if text.fault is not None:
            self.faults[key] = text.fault
            return
        rows = np.zeros((len(text.windows), dimensions), np.float32)
        entry = _Text(key, TextVectors(rows, int(text.flag)), len(rows))
        self.left += 1
        windows = [Window(ids, n, entry, self) for n, ids in enumerate(text.windows)]
        self.windows += windows
        self.cost += sum(window.length for window in windows)

    def fill(self, batch: list[Window], budget: int) -> int:
        """Move the waiting windows that fit into a batch; return their tokens.

        Takes the longest first, as long as their length is close to that of the batch's first, and
        longest * count <= budget. An empty batch gets one of any length.
        """
        tokens = 0
        longest = max((window.length for window in batch), default=0)
        while self.windows:
            length = self.windows[-1].length
            longest = max(longest, length)
            if batch and (
                longest * (len(batch) + 1) > budget
                or abs(length - batch[0].length) > PADDING_TOKENS
            ):
                break
            batch.append(self.windows.pop())
            tokens += length
        return tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """Windows that run together; `is_full` says that more work of their class was waiting."""

    windows: Sequence[Window]
    is_batch_work: bool = False
    is_full: bool = False


class WorkQueue:
    """The queue between calls and the worker threads.

    Thread-safe; its one lock is never held while a model runs.
    """

    def __init__(self, admission: Admission, batch_tokens: int = 0) -> None:
        """Cut batches of at most `batch_tokens`, or BATCH_TOKENS when it is 0."""
        self._batch_tokens = batch_tokens or BATCH_TOKENS
        self._admission = admission
        self._lock = threading.Lock()
        self._windows_come = threading.Condition(self._lock)
        self._calls: set[Call] = set()
        self._ready: FairQueue[Call] = FairQueue(QUANTUM)
        self._waiting_tokens = 0
        self._idle = self._busy_with_batch_work = 0
        self._closed = False

    def check(self, call: Call) -> None:
        """Refuse a call as `submit` would, by an estimated cost, before its texts are tokenised."""
        with self._lock:
            call.sender = self._admission.sender(call.sender, call.cost)
            self._admission.check(call, time.monotonic())

    def submit(self, call: Call) -> None:
        """Queue a call whose texts are tokenised; its waiter is woken when all are done.

        Raises Overloaded or DeadlineTooShort, or RuntimeError if the queue is closed.
        """
        call.windows.reverse()  # of windows of the same length the first is taken first
        call.windows.sort(key=lambda window: window.length)
        with self._lock:
            if self._closed:
                raise RuntimeError("the embedder was closed")
            if call.gone:
                return
            if not call.left:
                settle(call.waiter, None, None)
                return
            call.sender = self._admission.sender(call.sender, call.cost)
            self._admission.admit(call, time.monotonic())
            self._calls.add(call)
            self._waiting_tokens += call.cost
            self._ready.put(call, call.sender)
            self._windows_come.notify_all()

    def leave(self, call: Call) -> None:
        """Remove a call; its windows that don't run yet are dropped."""
        with self._lock:
            call.gone = True
            self._end(call, None)

    def take_batch(self, timeout_s: float | None = None, *, express: bool = False) -> Batch | None:
        """Return the next batch; an empty one after `timeout_s`, None when closed."""
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
        keep: Callable[[Mapping[bytes, TextVectors]], None],
    ) -> None:
        """Record the vectors or faults of windows, and end the calls that are complete.

        `keep` gets the vectors of texts without a fault before any caller can ask for them again.
        """
        ended = []
        for window, result in zip(batch.windows, results, strict=True):
            text = window.text
            with self._lock:
                if isinstance(result, tuple):
                    text.fault = text.fault or result
                else:
                    text.vectors.rows[window.number] = result
                text.missing -= 1
                if not text.missing:
                    ended.append((window.call, text))
        try:
            keep({text.key: text.vectors for _, text in ended if text.fault is None})
        finally:
            with self._lock:
                self._busy_with_batch_work -= batch.is_batch_work
                for call, text in ended:
                    if text.fault is None:
                        call.vectors[text.key] = text.vectors
                    else:
                        call.faults[text.key] = text.fault
                    call.left -= 1
                    if not call.left:
                        self._end(call, None)

    def measured(self, batch: Batch, seconds: float, workers: int) -> None:
        """Tell admission how fast a worker is."""
        tokens = sum(window.length for window in batch.windows)
        with self._lock:
            self._admission.measured(tokens, seconds, workers, full=batch.is_full)

    def close(self) -> None:
        """Stop the workers. Calls with windows that don't run yet end with RuntimeError."""
        with self._lock:
            self._closed = True
            for call in self._calls:
                if call.windows:
                    settle(call.waiter, None, RuntimeError("the embedder was closed"))
            self._windows_come.notify_all()

    def _cut(self, express: bool) -> Batch:
        """Return the next batch, perhaps empty; idle workers share what little work there is."""
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
                self._end(call, self._admission.overloaded(call))
            tokens = call.fill(batch, budget)
            self._waiting_tokens -= tokens
            if tokens and not call.begun:
                call.begun = True
                note("queue", time.monotonic() - call.since, [call])
            if not call.windows:
                senders.take(tokens)
            elif tokens:
                senders.charge(tokens, to_the_end=call.sender.is_batch)
            else:
                break
        is_batch_work = bool(batch) and senders is not self._ready.interactive
        self._busy_with_batch_work += is_batch_work
        if is_batch_work and self._ready.interactive:
            self._windows_come.notify_all()  # for the express worker
        return Batch(batch, is_batch_work, is_full=bool(senders))

    def _end(self, call: Call, error: BaseException | None) -> None:
        """Remove a call and its windows that don't run yet, and end it with an error or None."""
        if call in self._calls:
            self._calls.discard(call)
            self._admission.left(call)
            self._waiting_tokens -= sum(window.length for window in call.windows)
            call.windows.clear()
            settle(call.waiter, None, error)


@dataclass(eq=False)
class Workers:
    """Threads that run a queue's batches until it is closed; one of them is the express worker.

    They start when it is created.
    """

    name: str
    queue: WorkQueue
    tokenizer: WindowTokenizer
    session: Session
    keep: Callable[[Mapping[bytes, TextVectors]], None]
    report_unhealthy: ReportUnhealthy
    _failures: int = 0
    _unhealthy: bool = False
    _judging: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Start the threads."""
        self._threads = [
            threading.Thread(
                target=self._work, args=[not number], name=f"embed-{self.name}", daemon=True
            )
            for number in range(self.session.workers + 1)
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Return when every thread has ended; the queue must be closed."""
        for thread in self._threads:
            thread.join()

    def _work(self, express: bool) -> None:
        if not express:
            step_back()
        while True:
            timeout_s = PROBE_S if self._unhealthy and not express else None
            batch = self.queue.take_batch(timeout_s, express=express)
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
            note("infer", took, {window.call for window in windows})
            if not any(isinstance(result, tuple) for result in results):
                self.queue.measured(batch, took, self.session.workers)
            if _failed(results[0]) and len(windows) > 1:
                # One text may be to blame, or memory may be short: two halves, then give up.
                middle = -(-len(windows) // 2)
                results = self._run(windows[:middle]) + self._run(windows[middle:])
        finally:
            results = results or [_RUN_FAILED] * len(windows)
            self.queue.finish(batch, results, self.keep)
            self._count_failures(failed=all(map(_failed, results)))

    def _run(self, windows: Sequence[Window]) -> list[Float32Array | Fault]:
        """Return a vector or a fault for each window; all have the same fault if none could run."""
        token_ids, mask = pad([window.token_ids for window in windows])
        try:
            vectors = self.session.run(token_ids, mask)
        except BaseException as error:  # the thread must survive any error of a runtime
            logger.exception("a batch of shape %s failed", token_ids.shape)
            return [_NO_MEMORY if is_memory(error) else _RUN_FAILED] * len(windows)
        finite = finite_rows(vectors).tolist()
        return [vectors[i] if good else _NOT_FINITE for i, good in enumerate(finite)]

    def _count_failures(self, *, failed: bool) -> None:
        with self._judging:
            self._failures = self._failures + 1 if failed else 0
            suspicious = self._failures >= FAILURES_IN_A_ROW
        if suspicious if failed else self._unhealthy:
            self._judge()

    def _judge(self) -> None:
        """Run a plain text to check the model's health, and report a change of it."""
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
            self.report_unhealthy(unhealthy)

    def _runs(self) -> bool:
        try:
            (text,) = self.tokenizer.encode(["a"], TRUNCATE)
            vectors = self.session.run(*pad(text.windows))
        except BaseException:  # noqa: BLE001 - any failure is the answer
            return False
        return bool(finite_rows(vectors).all() and np.any(vectors))


def _failed(result: Float32Array | Fault) -> bool:
    """Return whether a window's batch could not run."""
    return isinstance(result, tuple) and result in {_RUN_FAILED, _NO_MEMORY}


def is_memory(error: BaseException) -> bool:
    """Return whether a runtime ran out of memory."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(word in text for word in _MEMORY_WORDS)


def note(stage: Stage, seconds: float, calls: Iterable[Call]) -> None:
    """Record a finished stage in the metrics and in the traces of its calls."""
    telemetry.note("stage_seconds", seconds, stage)
    if telemetry.tracer is not None:
        run = telemetry.StageRun(stage, time.time_ns(), seconds)
        for call in calls:
            if call.runs is not None:
                call.runs.append(run)
