"""Budgets that limit what calls to models cost: max_cost, per_request, per_day and per_month.

A request that could exceed a budget is not sent. If it would fit without the reservations of
requests in flight, which may not need all of them, it waits for those.

A process draws an allowance of a day's or month's budget from the ledger, a hundredth of the budget
at a time. It keeps at most two of these beside what it has reserved, and returns the rest. So most
questions need no access to the ledger before they are asked.
"""

from __future__ import annotations

import asyncio
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import orjson
from judged.values.server_info import BudgetLeft

from judged_server import telemetry
from judged_server.domain import CostTracker, nano_covering, nano_within, to_amount
from judged_server.errors import BudgetExhausted, InvalidField
from judged_server.llm.chat import (
    STORE_AWAY,
    ChatRequest,
    Completed,
    FinishReason,
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
"""Number of allowances that a budget is divided into."""


class Period(Enum):
    """The calendar period of a budget, in UTC; the value is the format of its name."""

    DAY = "%Y-%m-%d"
    MONTH = "%Y-%m"

    def name_at(self, time: datetime) -> str:
        """Return the name of the day or month that a time is in."""
        return time.strftime(self.value)


def default_ledger() -> Path:
    """Return the default path of the ledger's file: in the user's state folder."""
    return state_folder() / "spending.sqlite"


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
        self._asked = 0
        """What draws under way may add to the allowance."""
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
        """What this process has reserved for calls in flight."""
        return self._held[self._now]

    def left(self) -> int:
        """Return what this process could still reserve, as of its last draw."""
        self._roll_over()
        return max(0, self.limit - self._taken + self._allowance)

    async def look(self) -> int:
        """Return what any process could still reserve, as of now. Raises LedgerFault."""
        async with self._drawing:
            self._roll_over()
            await self._draw(self._now, 0)
            return self.left()

    def take(self, amount: int) -> Account | None:
        """Reserve an amount of the allowance; return the account and period it was taken from.

        None if the allowance is too small: `draw` may raise it.
        """
        self._roll_over()
        if self._allowance < amount:
            return None
        self._allowance -= amount
        self._held[self._now] += amount
        return self._now

    async def draw(self, amount: int) -> bool:
        """Draw what the allowance lacks for an amount; return whether it then suffices.

        Raises LedgerFault if the ledger can't be written.
        """
        async with self._drawing:
            self._roll_over()
            missing = amount - self._allowance
            if missing > 0:
                wanted = max(missing, self.limit // STEPS)
                # If the caller leaves, the next one can use what was drawn.
                drawing = asyncio.create_task(self._draw(self._now, wanted))
                drawing.add_done_callback(_retrieve)
                await asyncio.shield(drawing)
            return self._allowance >= amount

    def settle(self, taken: Account, amount: int, spent: int) -> None:
        """Replace a reserved amount by what was spent; `Budgets.written` says when it is stored."""
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
            # Other processes can use what a burst of calls reserved and did not need.
            released += self._allowance - step
            self._allowance = step
        elif self._allowance < 0:
            # More was spent than was drawn.
            released += self._allowance
            self._allowance = 0
        self._taken += spent - released
        self._ledger.settle(taken, spent, released)

    async def _draw(self, account: Account, wanted: int) -> None:
        holds = self._allowance + self._held[account] + self._asked
        self._asked += wanted
        try:
            drawn = await self._ledger.draw(account, self.limit, wanted, holds)
        finally:
            self._asked -= wanted
        if account == self._now:
            self._allowance += drawn.amount
            self._taken = drawn.taken
        else:
            self._ledger.settle(account, 0, drawn.amount)

    def _account(self) -> Account:
        name = f"tenant:{self.owner}" if self.owner else ""
        return Account(name, self.period.name_at(self._clock.date()), self._currency)

    def _roll_over(self) -> None:
        """Begin another period if the clock shows one, a later or an earlier."""
        day = self._clock.date().toordinal()
        if day == self._day:
            return
        self._day = day
        now = self._account()
        if now != self._now:
            self._ledger.settle(self._now, 0, self._allowance)
            self._allowance = self._taken = 0
            self._now = now


def _retrieve(drawing: asyncio.Task[None]) -> None:
    """Retrieve the exception of a draw whose caller may have left, so that it is not logged."""
    if not drawing.cancelled():
        drawing.exception()


WRITTEN_WITHIN_S = 0.05
"""How long an answer waits for its cost to be in the ledger, even after its deadline."""

Accounts = Sequence[BudgetAccount]


class Budgets:
    """The budgets of a server. Used on one event loop.

    `per_request` limits the cost of one request, `per_day` that of one day, in the server's
    currency; None for no limit. The `ledger` records the spending of each period and tenant, and
    the usage of each tenant by judge and model.
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
        """Return none, one or two budgets of the current call's tenant, the month's first."""
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
        """Return the model's reply, charged to the cost tracker and to the budgets that apply.

        Its usage is recorded for a kind of `judge` and a `rubric`.

        Raises ModelFault with the reason BUDGET if the call could exceed a budget, TIMEOUT if there
        was no time to wait, and those of the model. A call that was sent and then cut off may be
        charged, so it counts with the most that it may cost.
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
            # A paid reply is not returned before its cost is in the ledger.
            done = done._replace(unwritten=not await self.written(ends))
        return done

    def check_store(self) -> None:
        """Raise ModelFault while the store that records spending can't be reached."""
        if self._ledger is not None and self._ledger.is_away:
            raise ModelFault(Reason.STORE_UNREACHABLE, STORE_AWAY, retryable=True)

    async def written(self, ends: float) -> bool:
        """Return whether all earlier spending is in the ledger by `ends` of the loop's clock.

        Returns as soon as it is, or when that time is over.
        """
        if self._ledger is None:
            return True
        left_s = ends - asyncio.get_running_loop().time()
        return await self._ledger.written(max(WRITTEN_WITHIN_S, left_s))

    def _note(
        self, model: ChatModel, judge: str, rubric: str, done: Completed | None, spent: int
    ) -> None:
        """Record usage in metrics and ledger, also of what may be charged without a reply."""
        if done is None and not spent:
            return
        usage = TokenUsage() if done is None else done.reply.usage
        labels = model.card.name, TENANT.get().name
        telemetry.note("model_questions", int(done is not None), *labels)
        telemetry.note("model_tokens", usage.input_tokens, *labels, "input")
        telemetry.note("model_tokens", usage.output_tokens, *labels, "output")
        if model.card.prices is not None:
            telemetry.note("model_cost", to_amount(spent), *labels)
        if self._ledger is None:
            return
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
        """Return the budgets of the current call's tenant, the day's first. Raises LedgerFault."""
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
        """Return the usage of the current call's tenant from a day on; None without a ledger.

        Raises LedgerFault.
        """
        if self._ledger is None:
            return None
        return await self._ledger.used(since, TENANT.get().name)

    def day_left(self) -> int | None:
        """Return what is left of the day's budget as last seen, in nano-units; None without one."""
        return None if self.day is None else self.day.left()


class Reservation:
    """What is reserved for one call, and which requests were sent; implements chat.Receipt.

    `most` is the most that a request may cost, in nano-units. A request that was cut off, by a
    time-out or by the caller, may be charged. So the next one needs a reservation of its own, and
    each request that is still in doubt at the end counts as `most`.
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
        """Reserve `most` in every budget, before `ends` of the loop's clock.

        Raises ModelFault if it does not fit. Without `waits` it does not wait for other questions.
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
        """Note that a request will be sent now. Raises ModelFault if it could exceed a budget."""
        if self.in_doubt == len(self._held):
            await self.reserve(waits=False)
        self.in_doubt += 1

    def turned_down(self) -> None:
        """Note that the last request costs nothing."""
        self.in_doubt -= 1

    def settle(self, answered: int | None) -> int:
        """Replace the reserved amounts by the cost of all requests, and return that.

        `answered` is the cost of the reply, None for no reply.
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
        self._budgets.settled.set()  # waiting calls try again
        self._budgets.settled = asyncio.Event()
        return spent

    async def _try(self) -> bool:
        """Reserve the amount; return False if it may fit once other calls have settled."""
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
            # Other calls reserve while the ledger is read, so all budgets are checked again.
            if await self._draw(account):
                continue
            if account.held:
                return False
            if account.ended != ended:
                continue  # what has ended since was not in the ledger yet
            tracker.refusing_budget = account.name
            raise self._refusal(account.name, account.limit)
        return False

    def _fits(self) -> bool:
        """Return whether the amount is left now. Raises ModelFault if it never will be."""
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
                    except LedgerFault:  # another process may lock the file for some seconds
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
        if name == "max_cost":  # the same for every question, so that callers can group them
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
"""What each budget limits, and what to do once it is used up. Messages don't show how much is left,
which only the owner of a budget may know."""


def _unpriced_fault(model: ChatModel) -> ModelFault:
    return ModelFault(
        Reason.BUDGET,
        f"the model {model.card.name} has no prices on this server, and what you may spend has a "
        "limit (per_day or per_month); ask for another model, or ask the operator to set "
        "input_per_million and output_per_million of it",
        retryable=False,
    )


def unpriced(field: str = "asking.max_cost") -> InvalidField:
    """Return the error of a limit on the cost of a model without prices."""
    return InvalidField(
        field,
        "the model has no prices on this server, so its cost is unknown; leave it out, "
        "or ask the operator to set input_per_million and output_per_million of the model",
    )


def refuse_if_nothing_asked(cost_tracker: CostTracker, reasons: Iterable[str | None]) -> None:
    """Raise BudgetExhausted if budgets of a day or month refused all questions of a call.

    `reasons` are those of the call's results, None for a result without one.
    """
    name = cost_tracker.refusing_budget
    if name and not cost_tracker.granted and set(reasons) == {Reason.BUDGET}:
        whose, what_to_do = _BUDGETS[name]
        raise BudgetExhausted(
            name,
            f"{whose} is used up, or what is left of it covers none of the call's questions at the "
            f"most that they can cost, so nothing was asked; {what_to_do}",
        )


def _counted(done: Completed, request: ChatRequest) -> Completed:
    """Return a reply with token counts: the most there can be, if the provider reported none."""
    reply = done.reply
    input_tokens, output_tokens, _ = reply.usage
    said_something = reply.text or reply.unreadable or reply.finish_reason is FinishReason.LENGTH
    if input_tokens and (output_tokens or not said_something):
        return done
    usage = TokenUsage(
        input_tokens or request_tokens(request),
        output_tokens or request.max_tokens,
        estimated=True,
    )
    return done._replace(reply=reply._replace(usage=usage))


MESSAGE_TOKENS = 16
"""Tokens that a chat template adds around each of the two messages, and before the reply."""

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
    """The most that one call uses: tokens, and nano-units of money; None without a price."""

    input_tokens: int
    output_tokens: int
    cost: int | None


def estimate_calls(
    planned_calls: Iterable[PlannedCall],
) -> Iterator[tuple[PlannedCall, CallEstimate]]:
    """Yield each planned call with the most that asking its question once uses."""
    for planned in planned_calls:
        model = planned.model
        request = request_for(planned.question, new_nonce(), structured=model.card.structured)
        prices = model.card.prices
        cost = None if prices is None else most_of(prices, request)
        yield planned, CallEstimate(request_tokens(request), request.max_tokens, cost)
