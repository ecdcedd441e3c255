"""The streams of a scoring, several at once: on threads for `client`, in tasks for `aio`.

What a failure means for the scores is up to `scoring`.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import aclosing, suppress
from typing import Any, cast

import grpc

from judged import errors
from judged._batching.scoring import Part, Scoring
from judged._transport.call import CHUNKS_IN_FLIGHT, Attempts, Deadline, RetryBudget
from judged._transport.status import Failure, to_error
from judged.values.scores import AnswerScore

WAITING_SCORES = 1 << 8
"""Scores that may wait for the caller; more wait in the streams, which hold the server up."""
_POLL_S = 0.01

_Open = Callable[..., Any]
_Event = tuple[Part, AnswerScore | Exception | None]
"""A score of a part, what ended the part early, or None when it is done."""


class _Resumption:
    """The tries of one part: what to send next, and whether to go on after a failure."""

    def __init__(self, part: Part, deadline: Deadline, budget: RetryBudget) -> None:
        self._part = part
        self._deadline = deadline
        self._budget = budget
        self._attempts = Attempts(deadline, budget)
        self._before = len(part.missing)

    def call(self, open_: _Open) -> Any:  # noqa: ANN401 - a call of grpc or grpc.aio
        """Open a stream for what is missing."""
        self._before = len(self._part.missing)
        attempts = self._attempts
        request = self._part.request()
        return open_(request, timeout=attempts.timeout(), metadata=attempts.metadata)

    def ended(self) -> None:
        """Note a stream that ended well. Raises InternalError when scores are missing."""
        self._part.ended()
        self._budget.answered()

    def waits(self, error: errors.JudgedError) -> Iterator[float] | None:
        """Return the waits in seconds before the next stream; None when nothing is missing.

        They raise the error when there is to be no other stream.
        """
        missing = len(self._part.missing)
        if not missing and not isinstance(error, errors.BudgetExhausted):
            return None  # only the summary is lost, and it can be made again
        if missing < self._before:
            self._budget.answered()
            self._attempts = Attempts(self._deadline, self._budget)  # it goes on, so count anew
        return self._attempts.waits(error)


class _Streams:
    """What opens the streams of a scoring."""

    def __init__(self, open_: _Open, deadline: Deadline, budget: RetryBudget, target: str) -> None:
        self._open = open_
        self._deadline = deadline
        self._budget = budget
        self._target = target


class Threads(_Streams):
    """Runs a scoring over a synchronous stub."""

    def __init__(self, open_: _Open, deadline: Deadline, budget: RetryBudget, target: str) -> None:
        super().__init__(open_, deadline, budget, target)
        self._stop = threading.Event()
        self._calls: set[Any] = set()

    def run(self, scoring: Scoring) -> Generator[AnswerScore, None, None]:
        """Yield the scores as they come; those that never came are last, as errors."""
        one_by_one = scoring.limited or len(scoring.parts) == 1
        stream = (self._inline if one_by_one else self._threaded)(scoring.parts_in_turn())
        try:
            for part, event in stream:
                yield from scoring.take(part, event)
        finally:
            stream.close()
        yield from scoring.lost()

    def _inline(self, parts: Iterable[Part]) -> Generator[_Event, None, None]:
        for part in parts:
            yield from self._events(part)

    def _threaded(self, parts: Iterable[Part]) -> Generator[_Event, None, None]:
        events: queue.Queue[_Event] = queue.Queue(WAITING_SCORES)
        waiting = iter(parts)
        running: list[threading.Thread] = []

        def work(part: Part) -> None:
            for event in self._events(part):
                events.put(event)

        def start() -> int:
            part = next(waiting, None)
            if part is None:
                return 0
            thread = threading.Thread(target=work, args=(part,), name="judged-score", daemon=True)
            running.append(thread)
            thread.start()
            return 1

        try:
            active = sum(start() for _ in range(CHUNKS_IN_FLIGHT))
            while active:
                part, event = events.get()
                yield part, event
                if not isinstance(event, AnswerScore):
                    active += start() - 1
        finally:
            self._stop.set()
            for call in list(self._calls):
                call.cancel()
            while any(thread.is_alive() for thread in running):
                with suppress(queue.Empty):  # makes room for those that wait to hand over
                    events.get(timeout=_POLL_S)

    def _events(self, part: Part) -> Iterator[_Event]:
        """Yield the scores of a part, then what it ended with: None, or why it is not whole."""
        try:
            for score in self._scores(part):
                yield part, score
        except Exception as error:  # noqa: BLE001 - raised again where the caller waits
            yield part, error
        else:
            yield part, None

    def _scores(self, part: Part) -> Iterator[AnswerScore]:
        tries = _Resumption(part, self._deadline, self._budget)
        while True:
            try:
                yield from self._one_stream(part, tries)
            except grpc.RpcError as failure:
                waits = tries.waits(to_error(cast("Failure", failure), self._target))
                if waits is None or any(map(self._stop.wait, waits)):
                    return
            else:
                return

    def _one_stream(self, part: Part, tries: _Resumption) -> Iterator[AnswerScore]:
        call = tries.call(self._open)
        self._calls.add(call)
        try:
            if self._stop.is_set():
                return
            for reply in call:
                score = part.take(reply)
                if score is not None:
                    yield score
            tries.ended()
        finally:
            self._calls.discard(call)
            call.cancel()


class Tasks(_Streams):
    """Runs a scoring over an asynchronous stub."""

    async def run(self, scoring: Scoring) -> AsyncGenerator[AnswerScore, None]:
        """Yield the scores as they come; those that never came are last, as errors."""
        ahead = 1 if scoring.limited else CHUNKS_IN_FLIGHT
        async with aclosing(self._events(scoring.parts_in_turn(), ahead)) as events:
            async for part, event in events:
                for score in scoring.take(part, event):
                    yield score
        for score in scoring.lost():
            yield score

    async def _events(self, parts: Iterator[Part], ahead: int) -> AsyncGenerator[_Event, None]:
        events: asyncio.Queue[_Event] = asyncio.Queue(WAITING_SCORES)
        running: list[asyncio.Task[None]] = []

        async def work(part: Part) -> None:
            try:
                async with aclosing(self._scores(part)) as scores:
                    async for score in scores:
                        await events.put((part, score))
            except Exception as error:  # noqa: BLE001 - raised again where the caller waits
                await events.put((part, error))
            else:
                await events.put((part, None))

        def start() -> int:
            part = next(parts, None)
            if part is None:
                return 0
            running.append(asyncio.create_task(work(part)))
            return 1

        try:
            active = sum(start() for _ in range(ahead))
            while active:
                part, event = await events.get()
                yield part, event
                if not isinstance(event, AnswerScore):
                    active += start() - 1
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _scores(self, part: Part) -> AsyncGenerator[AnswerScore, None]:
        tries = _Resumption(part, self._deadline, self._budget)
        while True:
            call = tries.call(self._open)
            try:
                async for reply in call:
                    score = part.take(reply)
                    if score is not None:
                        yield score
                tries.ended()
            except grpc.aio.AioRpcError as failure:
                waits = tries.waits(to_error(cast("Failure", failure), self._target))
                if waits is None:
                    return
                for wait in waits:
                    await asyncio.sleep(wait)
            else:
                return
            finally:
                call.cancel()
