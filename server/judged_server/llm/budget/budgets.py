"""The budgets that hold around a call to a model: the caller's, the request's, the day's.

Nothing is sent that could overrun a budget. Where it only could because others are under way and
hold what they may not need, it waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from judged_server.errors import BudgetExhausted, InvalidField
from judged_server.llm.budget.day import DayLedger, LedgerFault
from judged_server.llm.budget.pricing import cost_of, request_tokens
from judged_server.llm.chat import ChatModel, ChatRequest, Completed, Prices
from judged_server.llm.faults import ModelFault, Reason
from judged_server.spending import CostTracker, nano_within, to_amount


@dataclass(frozen=True, slots=True)
class Reservation:
    """Money put aside for one call, and on which day; all in nano-units."""

    amount: int
    day: str | None


class Budgets:
    """The budgets of a server. Used on one event loop.

    `per_request` is for all that one request asks, in the server's currency, None for no limit;
    `day` keeps the budget of the day, if there is one.
    """

    def __init__(
        self, currency: str = "", per_request: float | None = None, day: DayLedger | None = None
    ) -> None:
        self.currency = currency
        self._per_request = None if per_request is None else nano_within(per_request)
        self._day = day
        self._waiting: list[asyncio.Future[None]] = []

    async def complete(
        self, model: ChatModel, request: ChatRequest, timeout_s: float, cost_tracker: CostTracker
    ) -> Completed:
        """Return the model's reply, paid by the cost tracker and from the server's budgets.

        Raises ModelFault with the reason BUDGET when the call could overrun one, TIMEOUT when there
        was no time to wait, and as the model does. A call that was sent and then cut off may be
        charged, so it counts with all that it may cost.
        """
        prices = prices_of(model)
        if not prices:
            return await model.complete(request, timeout_s)
        now = asyncio.get_running_loop().time
        ends = now() + timeout_s
        most = most_of(prices, request)
        receipt = _Receipt(
            self, cost_tracker, most, [await self.reserve(cost_tracker, most, timeout_s)]
        )
        answered: int | None = None
        try:
            done = await model.complete(request._replace(receipt=receipt), ends - now())
            paid = (done.answered_by or model.card).prices
            answered = 0 if paid is None else _charged(done, paid, most)
        finally:
            receipt.settle(answered)
        return done

    async def reserve(
        self, cost_tracker: CostTracker, amount: int, timeout_s: float
    ) -> Reservation:
        """Return an amount put aside in every budget. Raises ModelFault."""
        limit = None
        while (held := await self._try(cost_tracker, amount)) is None:
            limit = limit or asyncio.get_running_loop().time() + timeout_s
            wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(wake)
            try:
                async with asyncio.timeout_at(limit):
                    await wake
            except TimeoutError:
                raise ModelFault(
                    Reason.TIMEOUT,
                    "the call's time was used up before the questions under way had shown whether "
                    "the budget lasts for this one; allow more, or send less",
                    retryable=True,
                ) from None
            finally:
                if wake in self._waiting:
                    self._waiting.remove(wake)
        return held

    async def reserve_now(self, cost_tracker: CostTracker, amount: int) -> Reservation:
        """Return an amount put aside in every budget, without waiting for other questions.

        Raises ModelFault.
        """
        held = await self._try(cost_tracker, amount)
        if held is None:
            raise ModelFault(
                Reason.BUDGET,
                "trying again could overrun a budget while other questions are under way; send it "
                "again, or less at once",
                retryable=True,
            )
        return held

    def settle(self, cost_tracker: CostTracker, held: Reservation, spent: int) -> None:
        """Put what a call has cost, in nano-units, in the place of what was put aside for it."""
        cost_tracker.held -= held.amount
        cost_tracker.spent += spent
        if self._day is not None and held.day is not None:
            self._day.settle(held.day, held.amount, spent)
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            if not wake.done():
                wake.set_result(None)

    def close(self) -> None:
        """Give back what this process has drawn from the budget of the day."""
        if self._day is not None:
            self._day.close()

    async def _try(self, cost_tracker: CostTracker, amount: int) -> Reservation | None:
        """Return an amount put aside; None when it may fit once others have settled."""
        while self._fits(cost_tracker, amount):
            day = None
            if self._day is not None and (day := self._day.take(amount)) is None:
                # Others take their share while the file is read, so all is looked at once more.
                if await self._draw(self._day, amount):
                    continue
                if self._day.held:
                    return None
                cost_tracker.refused_by_day += 1
                raise self._refusal("per_day", amount, self._day.limit, self._day.left())
            cost_tracker.held += amount
            cost_tracker.granted += 1
            return Reservation(amount, day)
        return None

    def _fits(self, cost_tracker: CostTracker, amount: int) -> bool:
        """Return whether an amount is left now. Raises ModelFault when it never will be."""
        for limit, name in ((cost_tracker.limit, "max_cost"), (self._per_request, "per_request")):
            if limit is None:
                continue
            if cost_tracker.spent + amount > limit:
                raise self._refusal(name, amount, limit, limit - cost_tracker.spent)
            if cost_tracker.spent + cost_tracker.held + amount > limit:
                return False
        return True

    async def _draw(self, day: DayLedger, amount: int) -> bool:
        try:
            return await day.draw(amount)
        except LedgerFault:
            raise ModelFault(
                Reason.BUDGET,
                "what was spent today can't be written down, so nothing more is asked; the "
                "operator finds the file under [budget] and the cause in the log",
                retryable=True,
            ) from None

    def _refusal(self, name: str, amount: int, limit: int, left: int) -> ModelFault:
        may_cost, has, budget = (self._money(nano) for nano in (amount, max(0, left), limit))
        return ModelFault(
            Reason.BUDGET,
            f"the question may cost {may_cost}, and {has} is left of {_WHOSE[name]} {budget}; "
            f"{_NEXT[name]}",
            retryable=False,
        )

    def _money(self, nano: int) -> str:
        return f"{to_amount(nano):.6g} {self.currency}".rstrip()


@dataclass(slots=True)
class _Receipt:
    """What was sent of one call, and what is put aside for it; implements chat.Receipt.

    A request that was cut off, by time or by the caller, may be charged. So the next one has to be
    paid for beside it, and what is left in doubt at the end counts with all that it may cost.
    """

    budgets: Budgets
    cost_tracker: CostTracker
    most: int
    held: list[Reservation]
    in_doubt: int = 0

    async def sent(self) -> None:
        if self.in_doubt == len(self.held):
            self.held.append(await self.budgets.reserve_now(self.cost_tracker, self.most))
        self.in_doubt += 1

    def turned_down(self) -> None:
        self.in_doubt -= 1

    def settle(self, answered: int | None) -> None:
        """Settle all; `answered` is what the reply cost, None when there was none."""
        first, *others = self.held
        doubts = self.in_doubt
        if answered is not None:
            doubts = max(0, doubts - 1)
        for held in others:
            self.budgets.settle(self.cost_tracker, held, self.most if doubts else 0)
            doubts = max(0, doubts - 1)
        rest = self.most if doubts else 0
        self.budgets.settle(self.cost_tracker, first, rest if answered is None else answered + rest)


_WHOSE = {
    "max_cost": "the call's max_cost of",
    "per_request": "what one request may cost on this server,",
    "per_day": "what this server may spend a day,",
}
_NEXT = {
    "max_cost": "raise max_cost, or send less",
    "per_request": "send less at once, or ask the operator to raise per_request",
    "per_day": "wait for the next day (UTC), or ask the operator to raise per_day",
}


def prices_of(model: ChatModel) -> tuple[Prices, ...]:
    """Return the prices of all models that may answer in a model's name; () when one has none."""
    if model.card.prices is None:
        return ()
    prices = [card.prices for card in model.cards if card.prices is not None]
    return tuple(prices) if len(prices) == len(model.cards) else ()


def most_of(prices: Sequence[Prices], request: ChatRequest) -> int:
    """Return the most that a request can cost, in nano-units, whichever of the prices holds."""
    tokens = request_tokens(request)
    return max(cost_of(each, tokens, request.max_tokens) for each in prices)


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
        raise BudgetExhausted(
            "per_day",
            "what this server may spend a day is used up, and nothing of the call could be asked; "
            + _NEXT["per_day"],
        )


def _charged(done: Completed, prices: Prices, most: int) -> int:
    """Return what a reply has cost by its provider's count; without a count, the most."""
    usage = done.reply.usage
    if not (usage.input_tokens or usage.output_tokens):
        return most
    return cost_of(prices, usage.input_tokens, usage.output_tokens)
