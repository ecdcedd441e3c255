"""Fair scheduling: senders take turns, and excess work is rejected.

How much work is admitted:

The cost of work is estimated from the length of its texts in tokens or characters, and converted to
time by the rate measured lately. A call counts in full until it ends: finishing a part of it makes
no other call faster.

* All interactive calls together may wait and run for `max_delay_s`. Beyond that a sender is
  admitted while it has less than its share of that time. So a busy sender may use all idle time,
  but keeps no other sender out.
* Batch calls wait as long as their deadlines allow, up to the resource's `most` in total.
* A call is rejected at once if its deadline is before its estimated end, given its sender's work
  and the number of senders; and later, if its turn comes too late.
* An idle resource takes a call of any size.

Not safe for threads: callers hold a lock around every call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from judged_server.errors import DeadlineTooShort, Overloaded
from judged_server.tenant import Sender

_Result = TypeVar("_Result")


class Abandoned(Exception):
    """The computation was ended because no one waits for its result."""


_is_abandoned: ContextVar[Callable[[], bool] | None] = ContextVar("_is_abandoned", default=None)


def checkpoint() -> None:
    """Raise Abandoned if no one waits for the computation that calls this."""
    is_abandoned = _is_abandoned.get()
    if is_abandoned is not None and is_abandoned():
        raise Abandoned


def watched(is_abandoned: Callable[[], bool], work: Callable[[], _Result]) -> _Result:
    """Return work(), which ends at its next checkpoint once `is_abandoned` returns True."""
    token = _is_abandoned.set(is_abandoned)
    try:
        return work()
    finally:
        _is_abandoned.reset(token)


BATCH_TURNS = 8
"""While interactive work waits, batch work gets one turn in this many."""

Item = TypeVar("Item")


@dataclass(slots=True)
class _Line(Generic[Item]):
    """One sender's waiting items, its allowance per round, and what is left of it."""

    allowance: float
    left: float
    items: deque[Item] = field(default_factory=deque)


@dataclass(eq=False)
class RoundRobin(Generic[Item]):
    """Deficit round robin (Shreedhar and Varghese, 1995), charged once the cost is known.

    In its turn a sender may use `quantum` times its weight; then the next sender has its turn. What
    was used beyond that is deducted from its next turns. A sender that was idle and gets work has
    the next turn, like the new flows of FQ-CoDel (RFC 8290, 4.1). A sender whose work is done is
    remembered for a round. So a sender with little work is served at once, and none gets more turns
    by leaving and coming back. Not safe for threads.
    """

    quantum: float
    _new: dict[str, _Line[Item]] = field(default_factory=dict)
    """New senders that have not used up their first turn. They go first."""
    _old: dict[str, _Line[Item]] = field(default_factory=dict)
    """All other senders in the order of their turns, with those whose work ended this round."""
    _n_items: int = 0

    def __bool__(self) -> bool:
        return self._n_items > 0

    def __iter__(self) -> Iterator[Item]:
        for line in (*self._new.values(), *self._old.values()):
            yield from line.items

    def put(self, item: Item, sender: Sender, *, again: bool = False) -> None:
        """Add an item; with `again`, ahead of its sender's other items."""
        allowance = self.quantum * sender.weight
        line = self._new.get(sender.name) or self._old.get(sender.name)
        if line is None:
            line = self._new[sender.name] = _Line(allowance, allowance)
        line.allowance = allowance
        self._n_items += 1
        (line.items.appendleft if again else line.items.append)(item)

    def first(self) -> Item | None:
        """Return the next item without removing it; None if there are no items."""
        found = self._next()
        return None if found is None else found[1].items[0]

    def take(self, cost: float) -> Item | None:
        """Remove and return the next item, and charge its sender; None if there are no items."""
        if (found := self._next()) is None:
            return None
        sender, line = found
        item = line.items.popleft()
        self._n_items -= 1
        line.left -= cost
        if not line.items:  # remembered until the other senders have had their turns
            self._new.pop(sender, None)
            self._old.pop(sender, None)
            line.left = line.allowance  # neither debt nor credit is kept
            self._old[sender] = line
        return item

    def charge(self, cost: float, *, to_the_end: bool) -> None:
        """Charge the next item's sender; with `to_the_end`, move the item behind its others."""
        if (found := self._next()) is not None:
            found[1].left -= cost
            if to_the_end:
                found[1].items.rotate(-1)

    def _next(self) -> tuple[str, _Line[Item]] | None:
        while lines := self._new or self._old:
            sender, line = next(iter(lines.items()))
            if line.left > 0 and line.items:
                return sender, line
            del lines[sender]
            if line.items:
                line.left += line.allowance
                self._old[sender] = line  # to the end of the round
        return None


class FairQueue(Generic[Item]):
    """A queue ordered by class, then by sender in turns, then by arrival.

    Interactive work goes first, with one turn in BATCH_TURNS for batch work, so that it never
    starves. Not safe for threads.
    """

    def __init__(self, quantum: float) -> None:
        """Give a sender of weight 1 turns of `quantum`."""
        self.interactive: RoundRobin[Item] = RoundRobin(quantum)
        """The senders of interactive work."""
        self._batch: RoundRobin[Item] = RoundRobin(quantum)
        self._in_a_row = 0
        """Interactive turns since batch work last had one, or arrived."""

    def __iter__(self) -> Iterator[Item]:
        yield from self.interactive
        yield from self._batch

    def put(self, item: Item, sender: Sender, *, again: bool = False) -> None:
        """Add an item; with `again`, ahead of its sender's other items."""
        senders = self._batch if sender.is_batch else self.interactive
        senders.put(item, sender, again=again)

    def first(self) -> Item | None:
        """Return the next item without removing it; None if there are no items."""
        return self._senders().first()

    def take(self, cost: float) -> Item | None:
        """Remove and return the next item, and charge its sender; None if there are no items."""
        return self.turn().take(cost)

    def turn(self) -> RoundRobin[Item]:
        """Return the senders of the class whose turn it is, and count the turn."""
        senders, batch_waits = self._senders(), bool(self._batch)
        self._in_a_row = self._in_a_row + batch_waits if senders is self.interactive else 0
        return senders

    def _senders(self) -> RoundRobin[Item]:
        is_due = self._in_a_row >= BATCH_TURNS - 1 and bool(self._batch)
        return self._batch if is_due or not self.interactive else self.interactive


MAX_DELAY_S = 0.4
PATIENCE = 1.5
"""A call is rejected if alone it would take this many times the time it has. Above 1, since costs
are estimated from lengths, and the rate was measured beside other work."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that does work: its name in errors, and its limits in the unit of cost.

    `rate` is the cost done per second until it has been measured, `most` the limit of all admitted
    work, `interactive` the largest interactive call (which also takes at most half of the delay).
    """

    name: str
    rate: float
    most: float
    interactive: float = inf


class Work(Protocol):
    """A call to be admitted."""

    cost: int
    sender: Sender
    deadline: float | None
    begun: bool
    """Whether any of it has been done."""


_SETTLED = 20
"""The rate is the mean of the first so many measurements, then an exponential moving average."""
_SHORTEST_DELAY_S, _LONGEST_DELAY_S = 0.1, 30.0


@dataclass(slots=True)
class _Share:
    """The admitted work of one sender in one class."""

    weight: float
    cost: int = 0


@dataclass(slots=True)
class _Class:
    """The admitted work of one class, in total and by sender."""

    cost: int = 0
    shares: dict[str, _Share] = field(default_factory=dict)

    def weight_beside(self, sender: Sender) -> float:
        """Return the sum of the weights of all senders in work and this one."""
        others = (share.weight for name, share in self.shares.items() if name != sender.name)
        return sum(others) + sender.weight


@dataclass(eq=False)
class Admission:
    """Counts work by class and sender, and rejects excess work.

    `max_delay_s` may be changed while it is in use; `rate` is the estimated cost done per second.
    """

    resource: Resource
    max_delay_s: float = MAX_DELAY_S
    _interactive: _Class = field(default_factory=_Class)
    _batch: _Class = field(default_factory=_Class)
    _batches: int = 0

    def __post_init__(self) -> None:
        """Begin with the rate that the resource states."""
        self.rate = self.resource.rate

    @property
    def cost(self) -> int:
        """The estimated cost of all calls that have been admitted and have not ended."""
        return self._interactive.cost + self._batch.cost

    def sender(self, sender: Sender, cost: int) -> Sender:
        """Return the sender for a call of this cost, with `is_batch` set if the call is large."""
        most = min(self.resource.interactive, self.max_delay_s / 2 * self.rate)
        return sender if cost <= most else replace(sender, is_batch=True)

    @property
    def _room(self) -> float:
        """The limit of cost for all interactive calls together."""
        return min(self.max_delay_s * self.rate, self.resource.most)

    def _class_of(self, call: Work) -> _Class:
        return self._batch if call.sender.is_batch else self._interactive

    def admit(self, call: Work, now: float) -> None:
        """Admit a call. Raises as `check` does."""
        self.check(call, now)
        self._count(call, call.cost)

    def check(self, call: Work, now: float) -> None:
        """Raise Overloaded for a call beyond the limits.

        Raises DeadlineTooShort if it would be late even with nothing else in work.
        """
        cost, of = call.cost, self._class_of(call)
        share = of.shares.get(call.sender.name) or _Share(call.sender.weight)
        left_s = self.time_left(call, now)
        if cost and self.cost:
            own = share.cost + cost
            if left_s is not None and self._finish_s(call, own) > left_s:
                raise self.overloaded(call)
            if call.sender.is_batch:
                has_room = self.cost + cost <= self.resource.most
            else:
                part = call.sender.weight / of.weight_beside(call.sender)
                has_room = of.cost + cost <= self._room or own <= self._room * part
            if not has_room:
                raise self.overloaded(call)

    def time_left(self, call: Work, now: float) -> float | None:
        """Return the seconds until a call's deadline; None without one or while no rate is known.

        Raises DeadlineTooShort if it would be late even with nothing else in work.
        """
        if call.deadline is None or not self._batches:
            return None
        left_s = call.deadline - now
        if call.cost and call.cost > left_s * self.rate * PATIENCE:
            raise DeadlineTooShort(call.cost / self.rate, max(0.0, left_s))
        return left_s

    def left(self, call: Work) -> None:
        """Stop counting a call that has ended or was cancelled."""
        self._count(call, -call.cost)

    def _count(self, call: Work, cost: int) -> None:
        of, name, weight = self._class_of(call), call.sender.name, call.sender.weight
        share = of.shares.setdefault(name, _Share(weight))
        share.weight = weight  # the operator may have changed it
        share.cost += cost
        of.cost += cost
        if not share.cost:
            del of.shares[name]

    def is_late(self, call: Work, now: float) -> bool:
        """Return whether a call that has not begun can no longer end before its deadline."""
        if call.deadline is None or not self._batches or call.begun:
            return False
        return now + call.cost / self.rate > call.deadline

    def measured(self, cost: float, seconds: float, workers: int, *, full: bool) -> None:
        """Update the rate: one of `workers` did work of estimated `cost` in `seconds`.

        Without `full` it can only raise the rate, since a batch that is not full runs at a lower
        rate than a busy model does.
        """
        if not cost or seconds <= 0:
            return
        rate = workers * cost / seconds
        if full or rate > self.rate:
            self._batches = min(self._batches + 1, _SETTLED)
            self.rate += (rate - self.rate) / self._batches

    def _finish_s(self, call: Work, own: int) -> float:
        """Return the estimated time until a call ends, with senders sharing by weight."""
        of, sender = self._class_of(call), call.sender
        alike = own * of.weight_beside(sender) / sender.weight
        ahead = min(of.cost + call.cost, alike)
        if sender.is_batch:
            ahead += self._interactive.cost
        return ahead / self.rate

    def overloaded(self, call: Work) -> Overloaded:
        """Return the error for a call that is rejected, at once or when its turn comes too late.

        It does not say how much work waits, since that is the work of other tenants too.
        """
        delay = self._class_of(call).cost / self.rate
        return Overloaded(
            f"{self.resource.name} has more work than it can do in time; send less at once, or "
            "try again later",
            min(max(delay, _SHORTEST_DELAY_S), _LONGEST_DELAY_S),
        )


def settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    """Set a future's result or exception, from any thread."""

    def wake() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    with suppress(RuntimeError):  # the loop is closed, so no one waits
        future.get_loop().call_soon_threadsafe(wake)


About = TypeVar("About")
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class Flight(Generic[About, Result]):
    """One piece of work in flight; `about` is data that its first caller attaches to it.

    `callers` counts those that wait for it; `ending` is the timer that cancels it without callers.
    """

    key: str | bytes
    task: asyncio.Task[Result]
    about: About
    callers: int = 0
    ending: asyncio.TimerHandle | None = None


@dataclass
class SingleFlight(Generic[About, Result]):
    """Runs work once per key while it is in flight. For the event loop's thread.

    Work goes on for `grace_s` seconds after its last caller has left.
    """

    grace_s: float = 0.0
    _flights: dict[str | bytes, Flight[About, Result]] = field(default_factory=dict)

    def find(self, key: str | bytes) -> Flight[About, Result] | None:
        """Return the work in flight under a key, or None."""
        flight = self._flights.get(key)
        return None if flight is None or flight.task.done() else flight

    def begin(
        self, key: str | bytes, about: About, work: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Flight[About, Result]:
        """Begin work that is not in flight. The caller must then `wait` for it."""
        flight = self._flights[key] = Flight(key, asyncio.create_task(work()), about)
        flight.task.add_done_callback(lambda _: self._end(flight))
        return flight

    async def wait(
        self, flight: Flight[About, Result], timeout_s: float | None = None
    ) -> Result | None:
        """Return the result of the work, or None after `timeout_s` seconds.

        Raises what the work raises. When the last waiting caller is cancelled or times out, the
        work is cancelled, after the grace.
        """
        if flight.ending is not None:
            flight.ending.cancel()
            flight.ending = None
        flight.callers += 1
        try:
            await asyncio.wait({flight.task}, timeout=timeout_s)
            return flight.task.result() if flight.task.done() else None
        finally:
            flight.callers -= 1
            if not flight.callers and not flight.task.done():
                if self.grace_s:
                    loop = asyncio.get_running_loop()
                    flight.ending = loop.call_later(self.grace_s, self._end, flight)
                else:
                    self._end(flight)
                    # Wait for the work to end, so that it does not outlive its last caller.
                    await asyncio.wait({flight.task})

    async def close(self) -> None:
        """Cancel all work in flight, and wait for it."""
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, flight: Flight[About, Result]) -> None:
        """Remove work from those in flight, and cancel it if it has not ended."""
        if flight.ending is not None:
            flight.ending.cancel()
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]
        if not flight.task.cancel() and not flight.task.cancelled():
            flight.task.exception()  # else asyncio logs it as never retrieved
