"""How much work is let in, and which call gives way when that is too much.

Work has a cost, estimated from the length of texts in tokens or characters, and is turned into time
by the rate at which it was just done. A call counts whole until it ends: what is done of it makes
no other call quicker.

* Interactive calls together wait and run for at most `max_delay_s`. Beyond that, the newest call
  that has not begun of the sender with most work for its weight gives way: a sender below its share
  is let in even when there is none. So a busy sender may use all that is idle, and no more than its
  share of what is not.
* Batch calls wait as long as their deadlines allow, up to the resource's `most` together.
* A call whose deadline comes before its work would be done, by what its sender has in work and by
  how many share, is refused at once; one whose turn comes too late, then.
* What has nothing to do takes a call of any size.

Not safe for threads: who uses it holds a lock around every call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from judged_server.errors import DeadlineTooShort, Overloaded
from judged_server.scheduling.round_robin import BATCH, BATCH_TURNS, INTERACTIVE
from judged_server.tenant import Sender

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
    interactive: float = float("inf")


class Work(Protocol):
    """A call that asks to be let in."""

    cost: int
    sender: Sender
    deadline: float | None

    @property
    def begun(self) -> bool:
        """Whether any of it has been done: then it gives way to nobody."""
        ...


Call = TypeVar("Call", bound=Work)

_SETTLED = 20
"""Pieces of work of which the rate is the mean; later it follows the newest ones slowly."""
_SHORTEST_DELAY_S, _LONGEST_DELAY_S = 0.1, 30.0


@dataclass(slots=True)
class _Share(Generic[Call]):
    """What one sender has in work in one class, and its calls, the oldest first."""

    weight: float
    cost: int = 0
    calls: deque[Call] = field(default_factory=deque)

    @property
    def load(self) -> float:
        """Its work for its weight, by which senders are compared."""
        return self.cost / self.weight


class Admission(Generic[Call]):
    """Counts work by class and sender, and refuses what would be too much.

    `max_delay_s` may be set while it is used.
    """

    def __init__(self, resource: Resource, max_delay_s: float = MAX_DELAY_S) -> None:
        self._resource = resource
        self.max_delay_s = max_delay_s
        self._shares: tuple[dict[str, _Share[Call]], dict[str, _Share[Call]]] = ({}, {})
        self._class_cost = [0, 0]
        self._rate = resource.rate
        self._batches = 0

    @property
    def cost(self) -> int:
        """The work, by estimate, of all calls that have been let in and are not done."""
        return sum(self._class_cost)

    @property
    def rate(self) -> float:
        """What is done in a second, by estimate as well."""
        return self._rate

    def sender(self, sender: Sender, cost: int) -> Sender:
        """Return the sender of a call of this cost: one of batch work where it is a large one."""
        most = min(self._resource.interactive, self.max_delay_s / 2 * self._rate)
        return sender if cost <= most else replace(sender, is_batch=True)

    @property
    def _room(self) -> float:
        """For the work of all interactive calls."""
        return min(self.max_delay_s * self._rate, self._resource.most)

    def admit(self, call: Call, now: float) -> list[Call]:
        """Let a call in; return the calls that must give way to it, and are counted until they do.

        Raises Overloaded, or DeadlineTooShort when the call would be late even if nothing else were
        there.
        """
        cost = call.cost
        shares = self._shares[_class_of(call)]
        share = shares.get(call.sender.name) or _Share(call.sender.weight)
        victims: list[Call] = []
        left_s = None if call.deadline is None or not self._batches else call.deadline - now
        if cost and left_s is not None and cost > left_s * self._rate * PATIENCE:
            raise DeadlineTooShort(cost / self._rate, max(0.0, left_s))
        if cost and self.cost:
            if left_s is not None and self._finish_s(call, share, cost) > left_s:
                raise self.overloaded(call)
            if not call.sender.is_batch:
                victims = self._make_room(call, share, cost)
            elif self.cost + cost > self._resource.most:
                raise self.overloaded(call)
        shares[call.sender.name] = share
        share.weight = call.sender.weight  # the newest is what the operator has set last
        share.cost += cost
        share.calls.append(call)
        self._class_cost[_class_of(call)] += cost
        return victims

    def left(self, call: Call) -> None:
        """Forget a call that has ended or gone."""
        shares = self._shares[_class_of(call)]
        share = shares[call.sender.name]
        share.calls.remove(call)
        share.cost -= call.cost
        self._class_cost[_class_of(call)] -= call.cost
        if not share.calls:
            del shares[call.sender.name]

    def is_late(self, call: Call, now: float) -> bool:
        """Say whether a call that has not begun can't be done any more before its deadline."""
        if call.deadline is None or not self._batches or call.begun:
            return False
        return now + call.cost / self._rate > call.deadline

    def measured(self, cost: float, seconds: float, workers: int, *, full: bool) -> None:
        """Learn the rate from what one worker did of the work, by estimate.

        Unless more was there to do (`full`) it only tells that the rate is no less: a batch that is
        not full runs at a lower rate than a busy model does.
        """
        if not cost or seconds <= 0:
            return
        rate = workers * cost / seconds
        if full or rate > self._rate:
            self._batches = min(self._batches + 1, _SETTLED)
            self._rate += (rate - self._rate) / self._batches

    def _make_room(self, call: Call, share: _Share[Call], cost: int) -> list[Call]:
        """Return the calls that give way to an interactive one. Raises Overloaded."""
        shares, room = self._shares[INTERACTIVE], self._room
        excess = self._class_cost[INTERACTIVE] + cost - room
        if excess <= 0:
            return []
        own, sender = share.cost + cost, call.sender
        victims: list[Call] = []
        others = {name: other for name, other in shares.items() if name != sender.name}
        loads = {name: other.load for name, other in others.items()}
        while excess > 0:
            longest = max(loads, key=loads.__getitem__, default=None)
            if longest is None or loads[longest] <= own / sender.weight:
                break
            victim = next(
                (c for c in reversed(shares[longest].calls) if not c.begun and c not in victims),
                None,
            )
            if victim is None:
                del loads[longest]
                continue
            victims.append(victim)
            loads[longest] -= victim.cost / shares[longest].weight
            excess -= victim.cost
        weights = sum(other.weight for other in others.values())
        if excess > 0 and own > room * sender.weight / (weights + sender.weight):
            raise self.overloaded(call)
        return victims

    def _finish_s(self, call: Call, share: _Share[Call], cost: int) -> float:
        """Return how long a call would take, waiting included, where senders share by weight."""
        shares, sender = self._shares[_class_of(call)], call.sender
        weights = sum(other.weight for name, other in shares.items() if name != sender.name)
        alike = (share.cost + cost) * (weights + sender.weight) / sender.weight
        ahead = min(self._class_cost[_class_of(call)] + cost, alike)
        if sender.is_batch and self._class_cost[INTERACTIVE] > self._room / 2:
            ahead *= BATCH_TURNS
        elif sender.is_batch:
            ahead += self._class_cost[INTERACTIVE]
        return ahead / self._rate

    def overloaded(self, call: Call) -> Overloaded:
        """Return the error of a call that is not let in, gave way, or had its turn too late.

        How much waits is the work of all tenants, so the error does not tell.
        """
        delay = self._class_cost[_class_of(call)] / self._rate
        return Overloaded(
            f"{self._resource.name} has more work than it can do in time; send less at once, or "
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


def _class_of(call: Work) -> int:
    return BATCH if call.sender.is_batch else INTERACTIVE
