"""The budgets that hold around a call to a model: the caller's, the request's, the day's.

Nothing is sent that could overrun a budget. Where it only could because others are under way and
hold what they may not need, it waits for them.

Of a budget of a day or month a process draws an allowance from the ledger, a hundredth of it at a
time, keeps two of these at most beside what it has reserved, and gives back what it does not need.
So most questions cost no access to the file before they are asked.
"""

from __future__ import annotations

import asyncio
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import orjson
from judged.values.server_info import BudgetLeft

from judged_server.domain import CostTracker, nano_covering, nano_within, to_amount
from judged_server.errors import BudgetExhausted, InvalidField
from judged_server.llm.chat import (
    STORE_AWAY,
    ChatRequest,
    Completed,
    ModelFault,
    Prices,
    Reason,
    TokenUsage,
)
from judged_server.llm.models import ChatModel
from judged_server.llm.question import PlannedCall, new_nonce, request_for
from judged_server.llm.transport.endpoint import Clock
from judged_server.settings import state_folder
from judged_server.store.ledger import AGAIN_S, Account, Ledger, LedgerFault, Used
from judged_server.tenant import TENANT

STEPS = 100
"""The allowances a budget is cut into."""


class Period(Enum):
    """How long a budget is for, by the calendar in UTC; the value is a format of its name."""

    DAY = "%Y-%m-%d"
    MONTH = "%Y-%m"

    def name_at(self, time: datetime) -> str:
        """Return the name of the day or month that a time is in."""
        return time.strftime(self.value)


def default_ledger(environ: Mapping[str, str]) -> Path:
    """Return where the file is when the operator names none: beside the user's other state."""
    return state_folder(environ) / "spending.sqlite"


class BudgetAccount:
    """One budget. Used on one event loop. All amounts are in nano-units.

    `limit` may change while it is used. `owner` is "" for the server, else a tenant.
    """

    def __init__(
        self,
        ledger: Ledger,
        currency: str,
        limit: int,
        clock: Clock,
        owner: str = "",
        period: Period = Period.DAY,
    ) -> None:
        self._ledger = ledger
        self._currency = currency
        self._clock = clock
        self.owner = owner
        self.period = period
        self.limit = limit
        self.ended = 0
        """How many reservations have ended."""
        self._held: Counter[Account] = Counter()
        self._allowance = 0
        self._taken = 0
        self._day = clock.date().toordinal()
        self._now = self._account()
        self._drawing = asyncio.Lock()

    @property
    def name(self) -> str:
        """What the budget is called in errors."""
        name = "per_month" if self.period is Period.MONTH else "per_day"
        return f"tenant_{name}" if self.owner else name

    def renewed_at(self) -> datetime:
        """Return when the next day or month begins, in UTC."""
        day = self._clock.date().replace(hour=0, minute=0, second=0, microsecond=0)
        if self.period is Period.DAY:
            return day + timedelta(days=1)
        return (day.replace(day=1) + timedelta(days=31)).replace(day=1)

    @property
    def held(self) -> int:
        """What is reserved now, by this process, for calls under way."""
        return self._held[self._now]

    def left(self) -> int:
        """Return what this process could still reserve, as of when it last drew."""
        self._roll_over()
        return max(0, self.limit - self._taken + self._allowance)

    async def look(self) -> int:
        """Return what any process could still reserve, as of now. Raises LedgerFault."""
        async with self._drawing:
            self._roll_over()
            await self._draw(self._now, 0)
            return self.left()

    def take(self, amount: int) -> Account | None:
        """Reserve an amount of what was drawn; return the account and period it was taken from.

        None when not as much is drawn: `draw` may change that.
        """
        self._roll_over()
        if self._allowance < amount:
            return None
        self._allowance -= amount
        self._held[self._now] += amount
        return self._now

    async def draw(self, amount: int) -> bool:
        """Draw what `take` lacks for an amount; return whether there was as much.

        Raises LedgerFault when it can't be written down.
        """
        async with self._drawing:
            self._roll_over()
            missing = amount - self._allowance
            if missing > 0:
                wanted = max(missing, self.limit // STEPS)
                # What is drawn for a caller who leaves is there for the next one.
                drawing = asyncio.create_task(self._draw(self._now, wanted))
                drawing.add_done_callback(_look_at)
                await asyncio.shield(drawing)
            return self._allowance >= amount

    def settle(self, taken: Account, amount: int, spent: int) -> None:
        """Put what was spent in the place of what was reserved; `written` says when it is safe."""
        self._roll_over()
        self.ended += 1
        self._held[taken] -= amount
        if not self._held[taken]:
            del self._held[taken]
        if taken != self._now:
            self._ledger.settle(taken, spent, amount)
            return
        self._allowance += amount - spent
        step = self.limit // STEPS
        released = spent
        if self._allowance > 2 * step:
            # What a burst of calls had put aside and did not need may be another process's chance.
            released += self._allowance - step
            self._allowance = step
        elif self._allowance < 0:
            # More than was drawn, and it was spent all the same.
            released += self._allowance
            self._allowance = 0
        self._taken += spent - released
        self._ledger.settle(taken, spent, released)

    async def _draw(self, account: Account, wanted: int) -> None:
        holds = self._allowance + self._held[account]
        drawn = await self._ledger.draw(account, self.limit, wanted, holds)
        if account == self._now:
            self._allowance += drawn.amount
            self._taken = drawn.taken
        else:
            self._ledger.settle(account, 0, drawn.amount)

    def _account(self) -> Account:
        name = f"tenant:{self.owner}" if self.owner else ""
        return Account(name, self.period.name_at(self._clock.date()), self._currency)

    def _roll_over(self) -> None:
        """Begin a new period, in whichever direction the clock has gone."""
        day = self._clock.date().toordinal()
        if day == self._day:
            return
        self._day = day
        now = self._account()
        if now != self._now:
            self._ledger.settle(self._now, 0, self._allowance)
            self._allowance = self._taken = 0
            self._now = now


def _look_at(drawing: asyncio.Task[None]) -> None:
    """Take note of a failure that nobody may wait for any more; the next caller meets it anew."""
    if not drawing.cancelled():
        drawing.exception()


WRITTEN_WITHIN_S = 0.05
"""How long an answer waits for what it cost to be written down, even where its time is over."""

Accounts = Sequence[BudgetAccount]


class Budgets:
    """The budgets of a server. Used on one event loop.

    `per_request` is for all that one request asks, `per_day` for all that a day asks, in the
    server's currency, None for no limit. The `ledger` keeps what a day, and each tenant, has spent,
    and is told who asked for what.
    """

    def __init__(
        self,
        currency: str = "",
        per_request: float | None = None,
        per_day: float | None = None,
        ledger: Ledger | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.currency = currency
        self.per_request = None if per_request is None else nano_within(per_request)
        self._ledger = ledger
        self._clock = clock or Clock()
        self._begun: dict[tuple[str, Period], BudgetAccount] = {}
        self.day = self._account("", Period.DAY, per_day)
        self.settled = asyncio.Event()

    def own(self) -> list[BudgetAccount]:
        """Return none, one or two budgets of the tenant of the call in work, the month's first."""
        tenant = TENANT.get()
        month = self._account(tenant.name, Period.MONTH, tenant.per_month)
        day = self._account(tenant.name, Period.DAY, tenant.per_day)
        return [account for account in (month, day) if account is not None]

    def _account(self, owner: str, period: Period, limit: float | None) -> BudgetAccount | None:
        if limit is None or self._ledger is None:
            return None
        account = self._begun.get((owner, period))
        if account is None:
            account = BudgetAccount(self._ledger, self.currency, 0, self._clock, owner, period)
            self._begun[owner, period] = account
        account.limit = nano_within(limit)  # which may have changed
        return account

    async def complete(
        self,
        model: ChatModel,
        request: ChatRequest,
        timeout_s: float,
        cost_tracker: CostTracker,
        rubric: str = "",
        judge: str = "",
    ) -> Completed:
        """Return the model's reply, paid by the cost tracker and from the budgets that hold.

        It is written down as what `judge`, a kind, has asked by `rubric`.

        Raises ModelFault with the reason BUDGET when the call could overrun one, TIMEOUT when there
        was no time to wait, and as the model does. A call that was sent and then cut off may be
        charged, so it counts with all that it may cost.
        """
        prices = model.card.prices
        own = self.own()
        if prices is None:
            if own:
                raise _unpriced_fault(model)
            done = _counted(await model.complete(request, timeout_s), request)
            self._note(model, judge, rubric, done, 0)
            return done
        accounts = (*own, *([] if self.day is None else [self.day]))
        now = asyncio.get_running_loop().time
        ends = now() + timeout_s
        most = most_of(prices, request)
        self.check_store()
        reservation = Reservation(self, cost_tracker, most, ends, accounts)
        await reservation.reserve()
        answered: int | None = None
        replied: Completed | None = None
        try:
            done = await model.complete(request._replace(receipt=reservation), ends - now())
            done = replied = _counted(done, request)
            answered = cost_of(prices, *done.reply.usage[:2])
        except ModelFault as fault:
            fault.in_doubt = reservation.in_doubt * most
            raise
        finally:
            spent = reservation.settle(answered)
            self._note(model, judge, rubric, replied, spent)
        done = done._replace(in_doubt=spent - answered)
        if accounts and self._ledger is not None:
            # What was paid for is not answered before it is written down.
            done = done._replace(unwritten=not await self.written(ends))
        return done

    def check_store(self) -> None:
        """Raise ModelFault while spending is kept in a store that can't be reached."""
        if self._ledger is not None and self._ledger.is_away:
            raise ModelFault(Reason.STORE_UNREACHABLE, STORE_AWAY, retryable=True)

    async def written(self, ends: float) -> bool:
        """Return whether all that was spent before is written down by a time of the loop's clock.

        As soon as it is, or when the time is over.
        """
        if self._ledger is None:
            return True
        left_s = ends - asyncio.get_running_loop().time()
        return await self._ledger.written(max(WRITTEN_WITHIN_S, left_s))

    def _note(
        self, model: ChatModel, judge: str, rubric: str, done: Completed | None, spent: int
    ) -> None:
        """Write down who asked for what; what may have been charged without a reply counts too."""
        if self._ledger is None or (done is None and not spent):
            return
        usage = TokenUsage() if done is None else done.reply.usage
        used = Used(
            Period.DAY.name_at(self._clock.date()),
            TENANT.get().name,
            judge,
            model.card.name,
            rubric,
            self.currency,
            int(done is not None),
            usage.input_tokens,
            usage.output_tokens,
            spent,
        )
        self._ledger.note(used)

    async def left_of_tenant(self) -> list[BudgetLeft]:
        """Return the budgets of the tenant of the call in work, that of the day first.

        Raises LedgerFault.
        """
        return [
            BudgetLeft(
                each.name,
                to_amount(each.limit),
                to_amount(await each.look()),
                self.currency,
                each.renewed_at(),
            )
            for each in reversed(self.own())
        ]

    async def used_by_tenant(self, since: str) -> list[Used] | None:
        """Return what the tenant of the call in work used from a day on; None: nobody knows.

        Raises LedgerFault.
        """
        if self._ledger is None:
            return None
        return await self._ledger.used(since, TENANT.get().name)

    def day_left(self) -> int | None:
        """Return what is left of the day's budget as last seen, in nano-units; None without one."""
        return None if self.day is None else self.day.left()


class Reservation:
    """What is put aside for one call, and what was sent of it; implements chat.Receipt.

    `most` is what a request may cost, in nano-units. One that was cut off, by time or by the
    caller, may be charged. So the next one has to be paid for beside it, and what is left in doubt
    at the end counts with all that it may cost.
    """

    def __init__(
        self,
        budgets: Budgets,
        cost_tracker: CostTracker,
        most: int,
        ends: float,
        accounts: Accounts = (),
    ) -> None:
        self._budgets = budgets
        self._tracker = cost_tracker
        self._most = most
        self._ends = ends
        self._accounts = accounts
        self._held: list[list[tuple[BudgetAccount, Account]]] = []
        self.in_doubt = 0

    async def reserve(self, *, waits: bool = True) -> None:
        """Put `most` aside in every budget, before `ends` of the loop's clock.

        Raises ModelFault; where other questions hold what this one needs, at once unless it waits.
        """
        while not await self._try():
            if not waits:
                raise ModelFault(
                    Reason.BUDGET,
                    "trying again could overrun a budget while other questions are under way; send "
                    "it again, or less at once",
                    retryable=True,
                )
            try:
                async with asyncio.timeout_at(self._ends):
                    await self._budgets.settled.wait()
            except TimeoutError:
                raise ModelFault(
                    Reason.TIMEOUT,
                    "the call's time was used up before the questions under way had shown whether "
                    "the budget lasts for this one; allow more, or send less",
                    retryable=True,
                ) from None

    async def sent(self) -> None:
        """Note that a request goes out. Raises ModelFault where that could overrun a budget."""
        if self.in_doubt == len(self._held):
            await self.reserve(waits=False)
        self.in_doubt += 1

    def turned_down(self) -> None:
        """Note that what was sent last costs nothing."""
        self.in_doubt -= 1

    def settle(self, answered: int | None) -> int:
        """Put what all has cost in the place of what was put aside, and return it.

        `answered` is what the reply cost, None for no reply.
        """
        doubts = self.in_doubt if answered is None else max(0, self.in_doubt - 1)
        spent = left = (answered or 0) + doubts * self._most
        for place in reversed(range(len(self._held))):
            part = min(left, self._most) if place else left
            left -= part
            self._tracker.held -= self._most
            self._tracker.spent += part
            for account, period in self._held[place]:
                account.settle(period, self._most, part)
        self._budgets.settled.set()  # those who wait look again
        self._budgets.settled = asyncio.Event()
        return spent

    async def _try(self) -> bool:
        """Put the amount aside; return False when it may fit once others have settled."""
        tracker, amount = self._tracker, self._most
        while self._fits():
            taken: list[tuple[BudgetAccount, Account]] = []
            for account in self._accounts:
                if (period := account.take(amount)) is None:
                    break
                taken.append((account, period))
            else:
                tracker.held += amount
                tracker.granted += 1
                self._held.append(taken)
                return True
            for each, period in taken:
                each.settle(period, amount, 0)
            ended = account.ended
            # Others take their share while the file is read, so all is looked at once more.
            if await self._draw(account):
                continue
            if account.held:
                return False
            if account.ended != ended:
                continue  # what they left was not in the file yet
            tracker.refused_by_day += 1
            tracker.refusing_budget = account.name
            raise self._refusal(account.name, account.limit)
        return False

    def _fits(self) -> bool:
        """Return whether the amount is left now. Raises ModelFault when it never will be."""
        tracker, amount = self._tracker, self._most
        for limit, name in (
            (tracker.limit, "max_cost"), (self._budgets.per_request, "per_request")
        ):  # fmt: skip
            if limit is None:
                continue
            if tracker.spent + amount > limit:
                raise self._refusal(name, limit)
            if tracker.spent + tracker.held + amount > limit:
                return False
        return True

    async def _draw(self, account: BudgetAccount) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._ends):
                while True:
                    try:
                        return await account.draw(self._most)
                    except LedgerFault:  # another process may hold the file for some seconds
                        self._budgets.check_store()
                        await asyncio.sleep(AGAIN_S)
        raise ModelFault(
            Reason.BUDGET,
            "what was spent can't be written down, so nothing more is asked; the operator finds "
            "the file under [budget] and the cause in the log",
            retryable=True,
        )

    def _refusal(self, name: str, limit: int) -> ModelFault:
        may_cost, budget = (
            f"{to_amount(nano):.6g} {self._budgets.currency}".rstrip()
            for nano in (self._most, limit)
        )
        whose, what_to_do = _BUDGETS[name]
        message = f"the question may cost {may_cost}, more than is left of {whose}; {what_to_do}"
        if name == "max_cost":  # the same of every question, so that callers can count it as one
            message = (
                f"max_cost of {budget} does not cover the most that the question may cost, beside "
                f"what was spent; {what_to_do}"
            )
        return ModelFault(Reason.BUDGET, message, retryable=False)


_BUDGETS = {
    "max_cost": ("the call's max_cost", "raise max_cost, or send less"),
    "per_request": (
        "what one request may cost on this server",
        "send less at once, or ask the operator to raise per_request",
    ),
    "per_day": (
        "what this server may spend a day",
        "wait for the next day (UTC), or ask the operator to raise per_day",
    ),
    "tenant_per_day": (
        "what you may spend a day",
        "wait for the next day (UTC), or ask the operator to raise your per_day",
    ),
    "tenant_per_month": (
        "what you may spend a month",
        "wait for the next month (UTC), or ask the operator to raise your per_month",
    ),
}
"""What each budget is, and what to do once it is used up. How much is left is for those alone whose
budget it is."""


def _unpriced_fault(model: ChatModel) -> ModelFault:
    return ModelFault(
        Reason.BUDGET,
        f"the model {model.card.name} has no prices on this server, and what you may spend has a "
        "limit (per_day or per_month); ask for another model, or ask the operator to set "
        "input_per_million and output_per_million of it",
        retryable=False,
    )


def unpriced(field: str = "asking.max_cost") -> InvalidField:
    """Return the error of a limit on money for a model whose price nobody knows."""
    return InvalidField(
        field,
        "the model has no prices on this server, so nobody can tell what it costs; leave it out, "
        "or ask the operator to set input_per_million and output_per_million of the model",
    )


def refuse_if_nothing_asked(cost_tracker: CostTracker, reasons: Iterable[str | None]) -> None:
    """Raise BudgetExhausted when the day's budget kept all questions of a call from being asked.

    `reasons` are those of what came of them, None where there is none.
    """
    if cost_tracker.refused_by_day and not cost_tracker.granted and set(reasons) == {Reason.BUDGET}:
        name = cost_tracker.refusing_budget
        whose, what_to_do = _BUDGETS[name]
        raise BudgetExhausted(
            name,
            f"{whose} is used up, or what is left of it covers none of the call's questions at the "
            f"most that they can cost, so nothing was asked; {what_to_do}",
        )


def _counted(done: Completed, request: ChatRequest) -> Completed:
    """Return what came with a count of its tokens: the most there can be, where none was told."""
    reply = done.reply
    put_in, put_out, _ = reply.usage
    if put_in and (put_out or not (reply.text or reply.unreadable)):
        return done
    usage = TokenUsage(
        put_in or request_tokens(request), put_out or request.max_tokens, estimated=True
    )
    return done._replace(reply=reply._replace(usage=usage))


MESSAGE_TOKENS = 16
"""What a chat template sets around each of the two messages, and before the reply."""

_MERGE = string.ascii_letters.encode()


def tokens_at_most(text: str) -> int:
    """Return how many tokens a text has at most, for the tokenizers of today's models.

    Half a token for each ASCII letter, rounded up, and one for every other byte.
    """
    raw = text.encode("utf-8", "surrogatepass")
    single = len(raw.translate(None, _MERGE))
    return single + (len(raw) - single + 1) // 2


def request_tokens(request: ChatRequest) -> int:
    """Return how many input tokens a request has at most; its schema is counted as a text."""
    tokens = 3 * MESSAGE_TOKENS + tokens_at_most(request.system) + tokens_at_most(request.user)
    if request.schema is not None:
        schema = orjson.dumps(request.schema.schema).decode()
        tokens += tokens_at_most(request.schema.name) + tokens_at_most(schema)
    return tokens


def cost_of(prices: Prices, input_tokens: int, output_tokens: int) -> int:
    """Return what so many tokens cost, in nano-units, rounded up."""
    input_price, output_price = (Decimal(repr(price)) for price in astuple(prices))
    return nano_covering((input_price * input_tokens + output_price * output_tokens) / 10**6)


def most_of(prices: Prices, request: ChatRequest) -> int:
    """Return the most that a request can cost, in nano-units."""
    return cost_of(prices, request_tokens(request), request.max_tokens)


class CallEstimate(NamedTuple):
    """What one call takes at most: tokens, and nano-units of money; None without a price."""

    input_tokens: int
    output_tokens: int
    cost: int | None


def estimate_calls(
    planned_calls: Iterable[PlannedCall],
) -> Iterator[tuple[PlannedCall, CallEstimate]]:
    """Yield each planned call with what it takes at most to put its question once."""
    for planned in planned_calls:
        model = planned.model
        request = request_for(planned.question, new_nonce(), structured=model.card.structured)
        prices = model.card.prices
        cost = None if prices is None else most_of(prices, request)
        yield planned, CallEstimate(request_tokens(request), request.max_tokens, cost)
