"""Asks a system many questions, a few at once, and hands its answers over as they come."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from judged.evaluation.system import (
    Answer,
    Question,
    System,
    as_answer,
    is_async,
    takes_contexts,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a question: an answer, or the exception in its place; and the seconds."""

    question: Question
    answer: Answer | None
    failure: BaseException | None
    seconds: float


class Answering:
    """One asking of questions. To leave the iteration early asks no more of them."""

    def __init__(self, system: System, concurrency: int) -> None:
        self._system = system
        self._concurrency = concurrency
        self._with_contexts = takes_contexts(system)
        self._done: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        self._waiting: Iterator[Question] = iter(())
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def outcomes(self, questions: Sequence[Question]) -> Generator[Outcome, None, None]:
        """Yield an outcome for each question, in the order in which they come."""
        self._waiting = iter(questions)
        workers = min(self._concurrency, len(questions))
        targets = [self._run_loop] if is_async(self._system) else [self._work] * workers
        for target in targets:
            # Daemons: a system that hangs must not keep the interpreter from ending.
            threading.Thread(target=target, daemon=True, name="judged-asking").start()
        try:
            for _ in questions:
                outcome = self._done.get()
                if outcome is None:
                    return
                yield outcome
        finally:
            self.stop()

    def stop(self) -> None:
        """Ask no more questions; the iteration ends, also where it waits on another thread."""
        self._stopped.set()
        self._done.put(None)
        if self._loop is not None:
            with suppress(RuntimeError):  # it is closed: all was answered
                self._loop.call_soon_threadsafe(self._cancel)

    def leftover(self) -> Iterator[Outcome]:
        """Yield what came without being taken, as far as it is here already."""
        with suppress(queue.Empty):
            while True:
                outcome = self._done.get_nowait()
                if outcome is not None:
                    yield outcome

    def _next(self) -> Question | None:
        with self._lock:
            return None if self._stopped.is_set() else next(self._waiting, None)

    def _ask(self, question: Question) -> Any:  # noqa: ANN401 - whatever the system returns
        if self._with_contexts:
            return self._system(question.query, contexts=question.contexts)
        return self._system(question.query)

    def _work(self) -> None:
        while (question := self._next()) is not None:
            started = time.monotonic()
            try:
                answer = as_answer(self._ask(question))
            except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
                self._tell(question, None, error, started)
            else:
                self._tell(question, answer, None, started)

    def _run_loop(self) -> None:
        asyncio.run(self._ask_all())

    async def _ask_all(self) -> None:
        self._tasks = [asyncio.create_task(self._work_async()) for _ in range(self._concurrency)]
        self._loop = asyncio.get_running_loop()
        if self._stopped.is_set():
            self._cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _work_async(self) -> None:
        while (question := self._next()) is not None:
            started = time.monotonic()
            try:
                answer = as_answer(await self._ask(question))
            except asyncio.CancelledError:
                if self._stopped.is_set():
                    raise
                cancelled = RuntimeError("the system cancelled its own call")
                self._tell(question, None, cancelled, started)
            except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
                self._tell(question, None, error, started)
            else:
                self._tell(question, answer, None, started)

    def _tell(
        self,
        question: Question,
        answer: Answer | None,
        failure: BaseException | None,
        started: float,
    ) -> None:
        self._done.put(Outcome(question, answer, failure, time.monotonic() - started))
