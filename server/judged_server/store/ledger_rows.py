"""What goes into the ledger's tables, and comes out of them, as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import add
from typing import NamedTuple


class Account(NamedTuple):
    """A budget in one period: "" for the server's, or that of a tenant."""

    account: str
    period: str
    currency: str


class Drawn(NamedTuple):
    """What was drawn, and all that is settled or drawn by anybody since."""

    amount: int
    taken: int


class Used(NamedTuple):
    """What a tenant asked of a model by a judge and a rubric on a day; `nano` are nano-units.

    The judge is its kind.
    """

    day: str
    tenant: str
    judge: str
    model: str
    rubric: str
    currency: str
    questions: int
    input_tokens: int
    output_tokens: int
    nano: int


class Settled(NamedTuple):
    """What was spent of a budget for good, and how much of what was drawn is given back."""

    account: Account
    spent: int
    released: int


def together(entries: Iterable[Settled | Used]) -> Iterator[Settled | Used]:
    """Yield one entry for all that go into the same row: a statement takes longer than a sum."""
    settled: dict[Account, tuple[int, int]] = {}
    used: dict[tuple[str, ...], tuple[int, ...]] = {}
    for entry in entries:
        if isinstance(entry, Used):
            row, more = entry[:6], entry[6:]
            used[row] = tuple(map(add, used[row], more)) if row in used else more
        else:
            spent, released = settled.get(entry.account, (0, 0))
            settled[entry.account] = spent + entry.spent, released + entry.released
    for account, (spent, released) in settled.items():
        yield Settled(account, spent, released)
    for (day, tenant, judge, model, rubric, currency), numbers in used.items():
        yield Used(day, tenant, judge, model, rubric, currency, *numbers)
