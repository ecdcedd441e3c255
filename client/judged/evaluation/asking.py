"""Asks a function of the caller about many things, a few at once: a retriever, or a system."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Item]):
    """What a function returned about an item, or the exception in its place; and the seconds."""

    item: Item
    result: Any
    failure: BaseException | None
    seconds: float

    @property
    def told(self) -> str | None:
        """The failure in words; None without one."""
        return None if self.failure is None else f"{type(self.failure).__name__}: {self.failure}"


class Asker(Generic[Item]):
    """One asking of many items. To leave the iteration early asks no more of them."""

    def __init__(self) -> None:
        self._done: queue.SimpleQueue[Outcome[Item] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def outcomes(
        self,
        ask: Callable[[Item], Any],
        items: Sequence[Item],
        concurrency: int | None,
        *,
        awaited: bool,
    ) -> Generator[Outcome[Item], None, None]:
        """Yield an outcome for each item as they come, at most `concurrency` asked at once.

        With None they are asked one by one on this thread, where the function may have to stay;
        what is to be `awaited` runs on an event loop of its own.
        """
        waiting = iter(items)
        if concurrency is None and not awaited:
            while (item := self._next(waiting)) is not None:
                yield _ask(ask, item)
            return
        workers = min(concurrency or 1, len(items))
        targets: list[Callable[[], object]]
        if awaited:
            targets = [lambda: asyncio.run(self._await_all(ask, waiting, workers))]
        else:
            targets = [lambda: self._work(ask, waiting)] * workers
        for target in targets:
            # Daemons: a function that hangs must not keep the interpreter from ending.
            run = copy_context().run
            threading.Thread(target=run, args=(target,), daemon=True, name="judged-asking").start()
        left = len(items)
        try:
            while left and (outcome := self._done.get()) is not None:
                left -= 1
                yield outcome
        finally:
            if left:
                self.stop()

    def stop(self) -> None:
        """Ask no more; the iteration ends, also where it waits on another thread."""
        self._stopped.set()
        self._done.put(None)
        if self._loop is not None:
            with suppress(RuntimeError):  # it is closed: all was answered
                self._loop.call_soon_threadsafe(self._cancel)

    def leftover(self) -> Iterator[Outcome[Item]]:
        """Yield what came without being taken, as far as it is here already."""
        with suppress(queue.Empty):
            while True:
                outcome = self._done.get_nowait()
                if outcome is not None:
                    yield outcome

    @property
    def stopped(self) -> bool:
        """Whether no more is to be asked."""
        return self._stopped.is_set()

    def _next(self, waiting: Iterator[Item]) -> Item | None:
        with self._lock:
            return None if self._stopped.is_set() else next(waiting, None)

    def _work(self, ask: Callable[[Item], Any], waiting: Iterator[Item]) -> None:
        while (item := self._next(waiting)) is not None:
            self._done.put(_ask(ask, item))

    async def _await_all(
        self, ask: Callable[[Item], Any], waiting: Iterator[Item], workers: int
    ) -> None:
        self._tasks = [asyncio.create_task(self._await(ask, waiting)) for _ in range(workers)]
        self._loop = asyncio.get_running_loop()
        if self._stopped.is_set():
            self._cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _await(self, ask: Callable[[Item], Any], waiting: Iterator[Item]) -> None:
        while (item := self._next(waiting)) is not None:
            started = time.monotonic()
            result, failure = None, cast("BaseException | None", None)
            try:
                result = await ask(item)
            except asyncio.CancelledError:
                if self._stopped.is_set():
                    raise
                failure = RuntimeError("the function cancelled its own call")
            except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
                failure = error
            self._done.put(Outcome(item, result, failure, time.monotonic() - started))


def _ask(ask: Callable[[Item], Any], item: Item) -> Outcome[Item]:
    started = time.monotonic()
    result, failure = None, None
    try:
        result = ask(item)
    except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
        failure = error
    return Outcome(item, result, failure, time.monotonic() - started)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is: `done` of `total` queries retrieved, or contexts judged.

    As text it is a line for people, so that `progress=print` shows it.
    """

    stage: str
    done: int
    total: int
    elapsed_s: float

    @property
    def remaining_s(self) -> float | None:
        """The seconds that are left at the pace so far; None while nothing is done."""
        return self.elapsed_s * (self.total - self.done) / self.done if self.done else None

    def __str__(self) -> str:
        left = self.remaining_s
        ahead = "" if left is None else f", {left:.0f} s left"
        return f"{self.stage} {self.done}/{self.total}{ahead}"


OnProgress = Callable[[Progress], object]


def stage(name: str, told: OnProgress | None) -> Callable[[int, int], object] | None:
    """Return what a stage calls with (done, total); None where nobody listens."""
    if told is None:
        return None
    started = time.monotonic()
    return lambda done, total: told(Progress(name, done, total, time.monotonic() - started))
