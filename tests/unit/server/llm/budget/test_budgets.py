from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server import telemetry
from judged_server.domain import NANO, CostTracker
from judged_server.llm.budgets import BudgetAccount, Budgets, Reservation
from judged_server.llm.chat import (
    ChatModelCard,
    ChatReply,
    ChatRequest,
    Completed,
    FinishReason,
    ModelFault,
    Prices,
    ProviderFault,
    Reason,
    TokenUsage,
)
from judged_server.llm.transport.endpoint import Clock
from judged_server.store.ledger import Drawn, FileLedger

REQUEST = ChatRequest("s", "u", None, 100, 0.0)
# 48 of the template, 1 and 1 of the texts, at 1,000 nano-units; 100 at 2,000.
MOST = 250_000
COUNTED = TokenUsage(10, 5)
CARD = ChatModelCard("m", "p", "openai", "m-1", True, Prices(1.0, 2.0))


class Model:
    """Waits for its turn to come, then replies with a usage, or fails."""

    def __init__(self, usage: TokenUsage = COUNTED, sends: int = 1) -> None:
        self.card = CARD
        self.cards = (CARD,)
        self.problem = ""
        self.usage = usage
        self.sends = sends
        self.fault: Exception | None = None
        self.turned_down = False
        self.go = asyncio.Event()
        self.under_way = 0
        self.most_under_way = 0

    async def complete(self, request: ChatRequest, timeout_s: float) -> Completed:
        self.under_way += 1
        self.most_under_way = max(self.under_way, self.most_under_way)
        try:
            for _ in range(self.sends):
                if request.receipt is not None:
                    await request.receipt.sent()
                    if self.turned_down:
                        request.receipt.turned_down()
            await self.go.wait()
            if self.fault is not None:
                raise self.fault
            reply = ChatReply("yes", FinishReason.STOP, self.usage, "m-1")
            return Completed(reply, self.sends, 0.1)
        finally:
            self.under_way -= 1


def money(nano: int) -> CostTracker:
    return CostTracker(nano / NANO)


async def test_a_thousand_at_a_cents_worth_never_overrun_it():
    budgets, model, cost_tracker = Budgets("USD"), Model(), money(10 * MOST)
    calls = [
        asyncio.create_task(budgets.complete(model, REQUEST, 9, cost_tracker)) for _ in range(1000)
    ]
    async with asyncio.timeout(60):
        while model.under_way < 10:  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0)
    model.go.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    refused = [result for result in results if isinstance(result, ModelFault)]
    assert {fault.reason for fault in refused} == {Reason.BUDGET}
    # A reply costs 20,000, so others were asked with what the first ones left.
    assert cost_tracker.granted == 1000 - len(refused) == (10 * MOST - MOST) // 20_000 + 1
    assert (cost_tracker.spent, cost_tracker.held) == (20_000 * cost_tracker.granted, 0)
    assert model.most_under_way == 10


async def test_a_day_is_held_to_by_all_calls_together(tmp_path: Path):
    ledger = FileLedger(tmp_path / "day.sqlite")
    budgets = Budgets("USD", per_day=5 * MOST / NANO, ledger=ledger)
    model = Model(TokenUsage(50, 100))
    cost_trackers = [CostTracker() for _ in range(1000)]
    model.go.set()
    results = await asyncio.gather(
        *(budgets.complete(model, REQUEST, 9, cost_tracker) for cost_tracker in cost_trackers),
        return_exceptions=True,
    )
    assert sum(isinstance(result, Completed) for result in results) == 5
    assert sum(cost_tracker.spent for cost_tracker in cost_trackers) == 5 * MOST
    assert model.most_under_way <= 5
    assert budgets.day.held == 0
    ledger.close()


async def test_huge_usage_is_told_truthfully_and_ends_the_budget():
    budgets, model, cost_tracker = Budgets("USD"), Model(TokenUsage(10**9, 10**9)), money(4 * MOST)
    calls = [
        asyncio.create_task(budgets.complete(model, REQUEST, 9, cost_tracker)) for _ in range(100)
    ]
    await asyncio.sleep(0)
    model.go.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    answered = sum(isinstance(result, Completed) for result in results)
    assert answered == 4  # one batch in flight, and none after it
    assert cost_tracker.spent == 4 * 3 * 10**12


@pytest.mark.parametrize(
    ("sends", "turned_down", "spent"), [(1, False, MOST), (3, False, 3 * MOST), (3, True, 0)]
)
async def test_what_was_sent_and_failed_counts_unless_turned_down(sends, turned_down, spent):
    budgets, model, cost_tracker = Budgets("USD"), Model(sends=sends), CostTracker()
    model.fault = ProviderFault(Reason.TIMEOUT, "late", retryable=True, attempts=sends)
    model.turned_down = turned_down
    model.go.set()
    with pytest.raises(ProviderFault):
        await budgets.complete(model, REQUEST, 9, cost_tracker)
    assert (cost_tracker.spent, cost_tracker.held) == (spent, 0)


async def test_a_retry_that_no_budget_covers_is_not_sent():
    budgets, model, cost_tracker = Budgets("USD"), Model(sends=2), money(2 * MOST - 1)
    with pytest.raises(ModelFault) as caught:
        await budgets.complete(model, REQUEST, 9, cost_tracker)
    assert caught.value.reason is Reason.BUDGET
    assert (cost_tracker.spent, cost_tracker.held) == (MOST, 0)  # what had been sent may be charged


@pytest.mark.parametrize(("sends", "spent"), [(0, 0), (1, MOST)])
async def test_cancelled_calls_count_only_when_they_were_sent(sends, spent, monkeypatch):
    noted: list[Any] = []
    monkeypatch.setattr(telemetry, "recorder", lambda *figure: noted.append(figure))
    budgets, model, cost_tracker = Budgets("USD"), Model(sends=sends), CostTracker()
    call = asyncio.create_task(budgets.complete(model, REQUEST, 9, cost_tracker))
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert (cost_tracker.spent, cost_tracker.held) == (spent, 0)
    assert sum(value for name, value, *_ in noted if name == "model_cost") == spent / NANO


async def test_without_time_to_wait_the_reason_is_time():
    budgets, model, cost_tracker = Budgets("USD"), Model(), money(MOST)
    first = asyncio.create_task(budgets.complete(model, REQUEST, 9, cost_tracker))
    await asyncio.sleep(0)
    with pytest.raises(ModelFault) as caught:
        await budgets.complete(model, REQUEST, 0.01, cost_tracker)
    assert (caught.value.reason, caught.value.retryable) == (Reason.TIMEOUT, True)
    model.go.set()
    await first


class SlowToTell(FileLedger):
    """Holds back what it has read until it may go on, once for each `release`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.has_read, self.may_tell = asyncio.Event(), asyncio.Semaphore(0)

    async def draw(self, *of: Any) -> Drawn:
        drawn = await super().draw(*of)
        self.has_read.set()
        await self.may_tell.acquire()
        return drawn


@pytest.mark.parametrize("together", [False, True])
async def test_what_the_last_one_leaves_while_the_file_is_read_is_not_refused(
    tmp_path: Path, together: bool
):
    ledger = SlowToTell(tmp_path / "day.sqlite")
    budgets = Budgets("USD", ledger=ledger)
    accounts = [BudgetAccount(ledger, "USD", 3 * MOST, Clock())]
    first, second = CostTracker(), CostTracker()
    ends = asyncio.get_running_loop().time() + 9
    early = Reservation(budgets, first, 2 * MOST, ends, accounts)
    one = asyncio.create_task(early.reserve())
    await ledger.has_read.wait()
    other = Reservation(budgets, second, 2 * MOST, ends, accounts).reserve()
    if together:  # begun while nothing was reserved yet
        other = asyncio.create_task(other)
        await asyncio.sleep(0)
    ledger.has_read.clear()
    ledger.may_tell.release()
    await one
    other = asyncio.ensure_future(other)
    await ledger.has_read.wait()
    early.settle(MOST // 10)
    for _ in range(9):
        ledger.may_tell.release()
    async with asyncio.timeout(30):
        await other
    assert (second.held, second.refusing_budget) == (2 * MOST, "")
    ledger.close()


async def test_a_reply_without_a_count_costs_the_most():
    budgets, model, cost_tracker = Budgets("USD"), Model(TokenUsage()), CostTracker()
    model.go.set()
    await budgets.complete(model, REQUEST, 9, cost_tracker)
    assert cost_tracker.spent == MOST


STEPS = st.lists(
    st.tuples(st.sampled_from(["begin", "answer", "fail", "cancel"]), st.integers(0, 9)),
    max_size=60,
)


@given(limit=st.integers(0, 6), usage=st.integers(1, 100), steps=STEPS)
def test_no_order_of_events_overruns_a_budget_or_leaves_money_held(limit, usage, steps):
    async def run() -> None:
        budgets, cost_tracker = Budgets("USD"), money(limit * MOST)
        running: list[tuple[Model, asyncio.Task[Completed]]] = []
        for step, which in steps:
            if step == "begin":
                model = Model(TokenUsage(0, usage))
                task = asyncio.create_task(budgets.complete(model, REQUEST, 9, cost_tracker))
                running.append((model, task))
            elif running:
                model, task = running[which % len(running)]
                if step == "cancel":
                    task.cancel()
                else:
                    late = ProviderFault(Reason.TIMEOUT, "late", retryable=True)
                    model.fault = late if step == "fail" else None
                    model.go.set()
            for _ in range(3):
                await asyncio.sleep(0)
            assert 0 <= cost_tracker.spent + cost_tracker.held <= limit * MOST
        for model, _ in running:
            model.go.set()
        await asyncio.gather(*(task for _, task in running), return_exceptions=True)
        assert cost_tracker.held == 0
        assert cost_tracker.spent <= limit * MOST

    asyncio.run(run())
