"""The threads of one model: one reads texts, the others run batches.

A batch that fails is tried once more in two halves; what fails again is the fault of its texts.
After FAILURES_IN_A_ROW batches of which nothing came, a run of one plain text decides whether texts
are to blame or the model is: a model that fails it too is in trouble until it can do that text
again, which is tried every PROBE_S.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import numpy as np

from judged_server import recorder, tracing
from judged_server.domain import Float32Array
from judged_server.embedding.base import EMBEDDING_FAILED, OVERLOADED, TRUNCATE
from judged_server.embedding.batching.queue import Batch, WorkQueue
from judged_server.embedding.batching.windows import Fault, InflightText, Window
from judged_server.embedding.runtime.backend import Session, finite_rows, pad
from judged_server.embedding.tokenizer import WindowTokenizer
from judged_server.recorder import Stage

FAILURES_IN_A_ROW = 3
PROBE_S = 5.0
NICENESS = 10
"""Of the threads that run batches, but for the express one: what is short goes first on a core."""

ReportUnhealthy = Callable[[bool], None]
"""Told True when the model no longer runs, and False when it does again; on a worker's thread."""

_NOT_FINITE = (EMBEDDING_FAILED, "the model gave a vector that is not finite")
_RUN_FAILED = (EMBEDDING_FAILED, "the model could not be run on this text")
_NO_MEMORY = (OVERLOADED, "the memory did not suffice to run the model; send this text again later")
_NOT_READ = "the tokenizer failed on this text"
_MEMORY_WORDS = ("failed to allocate", "bad_alloc", "out of memory", "out_of_memory", "bad alloc")

logger = logging.getLogger(__name__)


class Workers:
    """Threads that do the work of a queue from `start` until the queue is closed."""

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
            waited = begun - entries[0].since
            if recorder.active is not None:
                recorder.active.stage("queue", waited)
            _trace("queue", waited, entries)
            try:
                texts = [entry.text for entry in entries]
                windows = self._tokenizer.encode(texts, entries[0].long_text)
                took = time.monotonic() - begun
                if recorder.active is not None:
                    recorder.active.stage("tokenize", took)
                _trace("tokenize", took, entries)
                self._queue.put_windows(entries, windows)
            except BaseException:  # a panic in Rust is no Exception, and the thread must live
                logger.exception("%d texts could not be tokenised", len(entries))
                self._queue.fail_texts(entries, _NOT_READ)

    def _work(self, *, express: bool = False) -> None:
        if not express:
            _step_back()
        while True:
            patience = PROBE_S if self._unhealthy and not express else None
            batch = self._queue.take_batch(express, patience)
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
            if recorder.active is not None:
                recorder.active.stage("infer", took)
            _trace("infer", took, (window.entry for window in windows))
            if all(_fault(result) is None for result in results):
                self._queue.measured(batch, took, self._count)
            if any(result in {_RUN_FAILED, _NO_MEMORY} for result in map(_fault, results)):
                # One text may be to blame, or memory may be short: two halves, then give up.
                middle = -(-len(windows) // 2)
                halves = [half for half in (windows[:middle], windows[middle:]) if half]
                if len(halves) > 1:
                    results = [result for half in halves for result in self._run(half)]
        finally:
            results = results or [_RUN_FAILED] * len(windows)
            failed = all(_fault(result) in {_RUN_FAILED, _NO_MEMORY} for result in results)
            self._queue.finish(batch, results, self._keep)
            self._count_failures(failed=failed)

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
        if self._unhealthy if not failed else suspicious:
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


def _step_back() -> None:
    """Give this thread less of a core than others get; only Linux can do that for one thread."""
    if sys.platform == "linux":
        with suppress(OSError):
            own = os.getpriority(os.PRIO_PROCESS, 0)
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), own + NICENESS)


def _fault(result: Float32Array | Fault) -> Fault | None:
    return result if isinstance(result, tuple) else None


def _is_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return isinstance(error, MemoryError) or any(word in text for word in _MEMORY_WORDS)


def _trace(stage: Stage, seconds: float, entries: Iterable[InflightText]) -> None:
    """Note what was just done for the calls that wait for some texts, where that is collected."""
    if tracing.active is None:
        return
    run = tracing.StageRun(stage, time.time_ns(), seconds)
    for call in {call for entry in entries for call in tuple(entry.calls)}:
        if call.runs is not None:
            call.runs.append(run)
