"""Fairness: senders take turns, and what is too much is refused.

How much work is let in:

Work has a cost, estimated from the length of texts in tokens or characters, and is turned into time
by the rate at which it was just done. A call counts whole until it ends: what is done of it makes
no other call quicker.

* Interactive calls together wait and run for at most `max_delay_s`. Beyond that a sender is let in
  as long as it has less than its share of that time. So a busy sender may use all that is idle, and
  keeps nobody out.
* Batch calls wait as long as their deadlines allow, up to the resource's `most` together.
* A call whose deadline comes before its work would be done, by what its sender has in work and by
  how many share, is refused at once; one whose turn comes too late, then.
* What has nothing to do takes a call of any size.

Not safe for threads: who uses it holds a lock around every call.
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
    """The computation was ended, since nobody waits for its result any more."""


_is_abandoned: ContextVar[Callable[[], bool] | None] = ContextVar("_is_abandoned", default=None)


def checkpoint() -> None:
    """Raise Abandoned when nobody waits for the computation that calls this."""
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
"""While interactive work waits, batch work has one of so many turns."""

Item = TypeVar("Item")


@dataclass(slots=True)
class _Line(Generic[Item]):
    """What waits of one sender, its share of a round, and what is left of its turn."""

    allowance: float
    left: float
    items: deque[Item] = field(default_factory=deque)


@dataclass(eq=False)
class RoundRobin(Generic[Item]):
    """Deficit round robin (Shreedhar and Varghese, 1995), charged once the cost is known.

    In its turn a sender may use `quantum` times its weight. Once that is used up the next one has
    its turn; what was used beyond it is made up for in the turns that follow. Nobody waits while
    there is work. Who comes with work after a while without any has the next turn, as the new flows
    of FQ-CoDel have (RFC 8290, 4.1), and is remembered for a round when its work is done: so a
    sender who has little is served at once, and nobody has more turns by leaving and coming back.
    Not safe for threads.
    """

    quantum: float
    _new: dict[str, _Line[Item]] = field(default_factory=dict)
    """Those who came lately and have some of their first turn left. They go first."""
    _old: dict[str, _Line[Item]] = field(default_factory=dict)
    """All others in the order of their turns, and who had work in this round."""

    def __bool__(self) -> bool:
        return self._next() is not None

    def __iter__(self) -> Iterator[Item]:
        for line in (*self._new.values(), *self._old.values()):
            yield from line.items

    def put(self, item: Item, sender: Sender, *, again: bool = False) -> None:
        """Let something wait; before all else of its sender if it is there `again`."""
        allowance = self.quantum * sender.weight
        line = self._new.get(sender.name) or self._old.get(sender.name)
        if line is None:
            line = self._new[sender.name] = _Line(allowance, allowance)
        line.allowance = allowance
        (line.items.appendleft if again else line.items.append)(item)

    def first(self) -> Item | None:
        """Return what comes next; it still waits."""
        found = self._next()
        return None if found is None else found[1].items[0]

    def take(self, cost: float) -> Item | None:
        """Return what comes next, which its sender is charged for; None when nothing waits."""
        if (found := self._next()) is None:
            return None
        sender, line = found
        item = line.items.popleft()
        line.left -= cost
        if not line.items:  # remembered until the others have had their turns
            self._new.pop(sender, None)
            self._old.pop(sender, None)
            line.left = line.allowance  # no debt is kept, and nothing saved up
            self._old[sender] = line
        return item

    def charge(self, cost: float, *, to_the_end: bool) -> None:
        """Charge its sender for a part of what comes next, which then waits behind its others."""
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
    """What waits, in the order in which it is done: by class, then by sender, then as it came.

    Interactive work goes first, with a turn for batch work now and then, so that it never starves.
    Not safe for threads.
    """

    def __init__(self, quantum: float) -> None:
        """Let a sender of weight 1 use `quantum` in its turn."""
        self.interactive: RoundRobin[Item] = RoundRobin(quantum)
        """The senders of interactive work."""
        self._batch: RoundRobin[Item] = RoundRobin(quantum)
        self._in_a_row = 0
        """Interactive turns since batch work had one, or came."""

    def __iter__(self) -> Iterator[Item]:
        yield from self.interactive
        yield from self._batch

    def put(self, item: Item, sender: Sender, *, again: bool = False) -> None:
        """Let something wait; before all else of its sender if it is there `again`."""
        senders = self._batch if sender.is_batch else self.interactive
        senders.put(item, sender, again=again)

    def first(self) -> Item | None:
        """Return what comes next; it still waits."""
        return self._senders().first()

    def take(self, cost: float) -> Item | None:
        """Return what comes next, which its sender is charged for; None when nothing waits."""
        return self.turn().take(cost)

    def turn(self) -> RoundRobin[Item]:
        """Return the senders of the class whose turn it is; that counts as the turn."""
        senders, batch_waits = self._senders(), bool(self._batch)
        self._in_a_row = self._in_a_row + batch_waits if senders is self.interactive else 0
        return senders

    def _senders(self) -> RoundRobin[Item]:
        is_due = self._in_a_row >= BATCH_TURNS - 1 and bool(self._batch)
        return self._batch if is_due or not self.interactive else self.interactive


MAX_DELAY_S = 0.4
PATIENCE = 1.5
"""How much longer than its deadline allows a call on its own must take to be refused: the
estimate is from lengths, and the rate that of a machine with other work to do."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What does the work: its name in errors, and its bounds in the unit of the work's cost.

    `rate` is what it does in a second until that has been measured, `most` all that may wait, and
    `interactive` the largest interactive call, where that is half of the delay at most.
    """

    name: str
    rate: float
    most: float
    interactive: float = inf


class Work(Protocol):
    """A call that asks to be let in."""

    cost: int
    sender: Sender
    deadline: float | None
    begun: bool
    """Whether any of it has been done."""


_SETTLED = 20
"""Pieces of work of which the rate is the mean; later it follows the newest ones slowly."""
_SHORTEST_DELAY_S, _LONGEST_DELAY_S = 0.1, 30.0


@dataclass(slots=True)
class _Share:
    """What one sender has in work in one class."""

    weight: float
    cost: int = 0


@dataclass(slots=True)
class _Class:
    """What is in work in one class, in all and by sender."""

    cost: int = 0
    shares: dict[str, _Share] = field(default_factory=dict)

    def weight_beside(self, sender: Sender) -> float:
        """Return the weights of all who share with a sender, its own included."""
        others = (share.weight for name, share in self.shares.items() if name != sender.name)
        return sum(others) + sender.weight


@dataclass(eq=False)
class Admission:
    """Counts work by class and sender, and refuses what would be too much.

    `max_delay_s` may be set while it is used; `rate` is what is done in a second, by estimate.
    """

    resource: Resource
    max_delay_s: float = MAX_DELAY_S
    _interactive: _Class = field(default_factory=_Class)
    _batch: _Class = field(default_factory=_Class)
    _batches: int = 0

    def __post_init__(self) -> None:
        """Begin with the rate that the resource is said to have."""
        self.rate = self.resource.rate

    @property
    def cost(self) -> int:
        """The work, by estimate, of all calls that have been let in and are not done."""
        return self._interactive.cost + self._batch.cost

    def sender(self, sender: Sender, cost: int) -> Sender:
        """Return the sender of a call of this cost: one of batch work where it is a large one."""
        most = min(self.resource.interactive, self.max_delay_s / 2 * self.rate)
        return sender if cost <= most else replace(sender, is_batch=True)

    @property
    def _room(self) -> float:
        """For the work of all interactive calls."""
        return min(self.max_delay_s * self.rate, self.resource.most)

    def _class_of(self, call: Work) -> _Class:
        return self._batch if call.sender.is_batch else self._interactive

    def admit(self, call: Work, now: float) -> None:
        """Let a call in. Raises as `check` does."""
        self.check(call, now)
        self._count(call, call.cost)

    def check(self, call: Work, now: float) -> None:
        """Raise Overloaded for a call that is too much.

        Raises DeadlineTooShort when it would be late even if nothing else were there.
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
        """Return how many seconds a call has, None for any number or while the rate is unknown.

        Raises DeadlineTooShort when it would be late even if nothing else were there.
        """
        if call.deadline is None or not self._batches:
            return None
        left_s = call.deadline - now
        if call.cost and call.cost > left_s * self.rate * PATIENCE:
            raise DeadlineTooShort(call.cost / self.rate, max(0.0, left_s))
        return left_s

    def left(self, call: Work) -> None:
        """Forget a call that has ended or gone."""
        self._count(call, -call.cost)

    def _count(self, call: Work, cost: int) -> None:
        of, name, weight = self._class_of(call), call.sender.name, call.sender.weight
        share = of.shares.setdefault(name, _Share(weight))
        share.weight = weight  # the newest is what the operator has set last
        share.cost += cost
        of.cost += cost
        if not share.cost:
            del of.shares[name]

    def is_late(self, call: Work, now: float) -> bool:
        """Say whether a call that has not begun can't be done any more before its deadline."""
        if call.deadline is None or not self._batches or call.begun:
            return False
        return now + call.cost / self.rate > call.deadline

    def measured(self, cost: float, seconds: float, workers: int, *, full: bool) -> None:
        """Learn the rate from what one worker did of the work, by estimate.

        Unless more was there to do (`full`) it only tells that the rate is no less: a batch that is
        not full runs at a lower rate than a busy model does.
        """
        if not cost or seconds <= 0:
            return
        rate = workers * cost / seconds
        if full or rate > self.rate:
            self._batches = min(self._batches + 1, _SETTLED)
            self.rate += (rate - self.rate) / self._batches

    def _finish_s(self, call: Work, own: int) -> float:
        """Return how long a call would take, waiting included, where senders share by weight."""
        of, sender = self._class_of(call), call.sender
        alike = own * of.weight_beside(sender) / sender.weight
        ahead = min(of.cost + call.cost, alike)
        if sender.is_batch:
            ahead += self._interactive.cost
        return ahead / self.rate

    def overloaded(self, call: Work) -> Overloaded:
        """Return the error of a call that is not let in, or had its turn too late.

        How much waits is the work of all tenants, so the error does not tell.
        """
        delay = self._class_of(call).cost / self.rate
        return Overloaded(
            f"{self.resource.name} has more work than it can do in time; send less at once, or "
            "try again later",
            min(max(delay, _SHORTEST_DELAY_S), _LONGEST_DELAY_S),
        )


def settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    """Wake whoever waits for a future, from any thread."""

    def wake() -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    with suppress(RuntimeError):  # a loop that is closed has nobody left to wake
        future.get_loop().call_soon_threadsafe(wake)


About = TypeVar("About")
Result = TypeVar("Result")


@dataclass(slots=True, eq=False)
class Flight(Generic[About, Result]):
    """One piece of work on its way, and what whoever began it says about it.

    `callers` wait for it; `ending` is when it is cancelled, set while nobody does.
    """

    key: str | bytes
    task: asyncio.Task[Result]
    about: About
    callers: int = 0
    ending: asyncio.TimerHandle | None = None


@dataclass
class SingleFlight(Generic[About, Result]):
    """The work in flight of a server, by key. For the event loop's thread.

    Work goes on for `grace_s` seconds after its last caller has left.
    """

    grace_s: Callable[[About], float] = lambda _: 0.0
    _flights: dict[str | bytes, Flight[About, Result]] = field(default_factory=dict)

    def find(self, key: str | bytes) -> Flight[About, Result] | None:
        """Return the work under a key; None when it is not in flight."""
        flight = self._flights.get(key)
        return None if flight is None or flight.task.done() else flight

    def begin(
        self, key: str | bytes, about: About, work: Callable[[], Coroutine[Any, Any, Result]]
    ) -> Flight[About, Result]:
        """Begin work that is not in flight; whoever begins it must `wait` for it."""
        flight = self._flights[key] = Flight(key, asyncio.create_task(work()), about)
        flight.task.add_done_callback(lambda _: self._end(flight))
        return flight

    async def wait(
        self, flight: Flight[About, Result], timeout_s: float | None = None
    ) -> Result | None:
        """Return what came of the work; None when `timeout_s` seconds were too short for it.

        Raises what the work raised. The last one who waits, when cancelled or out of time, ends it.
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
                grace_s = self.grace_s(flight.about)
                if grace_s > 0:
                    loop = asyncio.get_running_loop()
                    flight.ending = loop.call_later(grace_s, self._end, flight)
                else:
                    self._end(flight)
                    # Whoever sees the caller's end sees that of the work: nothing is left behind.
                    await asyncio.wait({flight.task})

    async def close(self) -> None:
        """End all work that is in flight."""
        tasks = [flight.task for flight in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, flight: Flight[About, Result]) -> None:
        """Forget work that has ended; cancel it where nobody waits for it."""
        if flight.ending is not None:
            flight.ending.cancel()
        if self._flights.get(flight.key) is flight:
            del self._flights[flight.key]
        if not flight.task.cancel() and not flight.task.cancelled():
            flight.task.exception()  # nobody may be left to be told
