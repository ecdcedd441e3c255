"""Asks a function of the caller about many things, a few at once: a retriever, or a system."""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from judged._transport.primitives import async_on_thread

Item = TypeVar("Item")
CONCURRENCY = 4
"""Items that a coroutine function is asked about at once by default."""


@dataclass(slots=True)
class Outcome(Generic[Item]):
    """What a function returned about an item, or the exception in its place; and the seconds.

    `resumed` says that an earlier run asked.
    """

    item: Item
    result: Any = None
    failure: BaseException | None = None
    seconds: float = 0.0
    resumed: bool = False

    @property
    def told(self) -> str | None:
        """The failure in words; None without one."""
        return None if self.failure is None else f"{type(self.failure).__name__}: {self.failure}"

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Take what is raised as the failure, and how long it took."""
        started = time.monotonic()
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - raised again where the caller waits
            self.failure = error
        self.seconds = time.monotonic() - started


@dataclass(frozen=True, slots=True)
class Asked(Generic[Item]):
    """A function that is asked about items, what reads its results, and if it is to be awaited."""

    function: Callable[[Item], Any]
    read: Callable[[Any, Item], Any]
    awaited: bool

    def outcome(self, item: Item) -> Outcome[Item]:
        """Return what came of asking about an item."""
        outcome = Outcome(item)
        with outcome.timed():
            outcome.result = self.read(self.function(item), item)
        return outcome

    async def outcome_async(self, item: Item) -> Outcome[Item]:
        """Return what came of it; a function that is not to be awaited runs on a thread."""
        if not self.awaited:
            return await async_on_thread(partial(self.outcome, item))
        outcome = Outcome(item)
        with outcome.timed():
            outcome.result = self.read(await self.function(item), item)
        return outcome


class Asker(Generic[Item]):
    """One asking of many items. To leave the iteration early asks no more of them."""

    def __init__(self) -> None:
        self._done: queue.SimpleQueue[Outcome[Item] | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._cancel: Callable[[], object] | None = None

    def outcomes(
        self, asked: Asked[Item], items: Sequence[Item], concurrency: int | None
    ) -> Generator[Outcome[Item], None, None]:
        """Yield an outcome for each item as they come, at most `concurrency` asked at once.

        By default that is one, on this thread, where the function may have to stay; of what is to
        be awaited, four, on an event loop of its own.
        """
        if (concurrency or 1) == 1 and not asked.awaited:
            for item in items:
                if self.stopped:
                    return
                yield asked.outcome(item)
            return
        asking = self._ask_all(asked, items, concurrency or CONCURRENCY)
        # A daemon: a function that hangs must not keep the interpreter from ending.
        threading.Thread(
            target=copy_context().run, args=(asyncio.run, asking), daemon=True, name="judged-asking"
        ).start()
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
        if self._cancel is not None:
            with suppress(RuntimeError):  # its loop is closed: all was answered
                self._cancel()

    def leftover(self) -> Iterator[Outcome[Item]]:
        """Yield what came without being taken, as far as it is here already."""
        with suppress(queue.Empty):
            while True:
                if (outcome := self._done.get_nowait()) is not None:
                    yield outcome

    @property
    def stopped(self) -> bool:
        """Whether no more is to be asked."""
        return self._stopped.is_set()

    async def _ask_all(self, asked: Asked[Item], items: Sequence[Item], workers: int) -> None:
        waiting = iter(items)

        async def work() -> None:
            for item in waiting:
                if self.stopped:
                    return
                outcome = await asked.outcome_async(item)
                if isinstance(outcome.failure, asyncio.CancelledError):
                    if self.stopped:
                        raise outcome.failure
                    outcome.failure = RuntimeError("the function cancelled its own call")
                self._done.put(outcome)

        working = asyncio.gather(*(work() for _ in range(min(workers, len(items)))))
        self._cancel = partial(asyncio.get_running_loop().call_soon_threadsafe, working.cancel)
        with suppress(asyncio.CancelledError):
            await working


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


def is_async(system: Callable[..., object]) -> bool:
    """Return whether a call of a system is to be awaited."""
    call = getattr(system, "__call__", None)  # noqa: B004 - an object with an async __call__
    return inspect.iscoroutinefunction(system) or inspect.iscoroutinefunction(call)


def signature_of(system: Callable[..., object]) -> str:
    """Return what a system is known by: its `signature` if it has one, else its name."""
    signature = getattr(system, "signature", None)
    if isinstance(signature, str):
        return signature
    kind = type(system)
    return str(getattr(system, "__qualname__", f"{kind.__module__}.{kind.__qualname__}"))
