"""Storms: thousands of callers who leave at any moment, and a provider that is down for everybody.

Questions go the whole way from the asker to real sockets. The ordinary run is short; set
JUDGED_STORM_CANCELS=10000 and JUDGED_OUTAGE_ITEMS=10000 for the long one.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from judged.values.choices import CacheMode, Status
from judged_server.domain import CostTracker, Group, JudgeSpec
from judged_server.judges.base import Caller
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.llm.judge import LlmKind
from judged_server.llm.budgets import Budgets
from judged_server.llm.caller import CallOptions, ModelCaller
from judged_server.llm.config import parse_configuration
from judged_server.llm.models import ChatModels
from judged_server.llm.question import Question
from judged_server.llm.reply_cache import ReplyCache
from judged_server.llm.rubrics.rubric import load_builtin
from judged_server.llm.transport.endpoint import Clock
from judged_server.store.ledger import FileLedger

from tests.fakes.canaries import TEXT
from tests.fakes.providers.faulty_http import completion

CANCELS = int(os.environ.get("JUDGED_STORM_CANCELS", "500"))
ITEMS = int(os.environ.get("JUDGED_OUTAGE_ITEMS", "1000"))
CALLERS = 64
ROOM = 24
"""Fewer than there are callers, so that many are cancelled while they wait for room."""
TEXTS = 400
"""Fewer than there are questions, so that many share a flight, or find a reply."""
LONGEST_S = 0.02
MOST_PATIENT_S = 0.3

RUBRIC = load_builtin()["retrieval_match"]
BODY = completion('{"reasoning": "r", "verdict": "yes"}')
ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    b"Content-Length: " + str(len(BODY)).encode() + b"\r\n\r\n" + BODY
)
DOWN = b"HTTP/1.1 503 Down\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\ndown"


class Pulse(asyncio.Protocol):
    """Answers each request of a connection after a random time: in one piece, in two, or never."""

    open: set[asyncio.BaseTransport]

    def __init__(self, opened: set[asyncio.BaseTransport], counts: Counter[str], rng: Random):
        self._opened, self._counts, self._rng = opened, counts, rng
        self._received = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._opened.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._opened.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].lower()
            place = head.index(b"content-length:") + 15
            end += 4 + int(head[place:].split(b"\r\n", 1)[0])
            if len(self._received) < end:
                return
            self._received = self._received[end:]
            self._counts["requests"] += 1
            self._answer()

    def _answer(self) -> None:
        loop, roll, delay = asyncio.get_running_loop(), self._rng.random(), self._rng.random()
        if roll < 0.05 or self._counts["held"]:
            return
        cut = self._rng.randrange(1, len(ANSWER)) if roll < 0.3 else len(ANSWER)
        loop.call_later(delay * LONGEST_S, self._write, ANSWER[:cut])
        loop.call_later((delay + 0.2) * LONGEST_S, self._write, ANSWER[cut:])

    def _write(self, data: bytes) -> None:
        if data and not self._transport.is_closing():
            self._transport.write(data)


class Down(Pulse):
    """Says 503 to everything."""

    def _answer(self) -> None:
        self._write(DOWN)


@asynccontextmanager
async def provider(
    kind: type[Pulse], counts: Counter[str]
) -> AsyncIterator[tuple[str, set[asyncio.BaseTransport]]]:
    opened: set[asyncio.BaseTransport] = set()
    rng = Random(3)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: kind(opened, counts, rng), "127.0.0.1", 0, backlog=1024
    )
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/v1", opened
    finally:
        server.close()
        for transport in list(opened):
            transport.close()
        await server.wait_closed()


def configured(url: str, clock: Clock | None = None) -> ChatModels:
    document = {
        "currency": "USD",
        "providers": [{"name": "p", "base_url": url, "max_concurrency": ROOM}],
        "models": [
            {
                "name": "m",
                "provider": "p",
                "model": "m-1",
                "input_per_million": 1.0,
                "output_per_million": 2.0,
            }
        ],
    }
    return ChatModels(parse_configuration(document, "test"), {}, clock, Random(7))


def question(number: int) -> Question:
    texts = {"query": "q", "expected_text": "e", "retrieved_text": f"{TEXT} {number}"}
    return Question(RUBRIC, texts, 0, 0.0, 16)


def open_sockets() -> int:
    found = 0
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found += str(entry.readlink()).startswith("socket:")
    return found


async def settled(fact: Any, seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not fact():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.005)


@pytest.mark.timeout(600)
async def test_callers_who_leave_at_any_moment_leave_nothing_behind(tmp_path: Path):
    counts: Counter[str] = Counter()
    tasks_before = asyncio.all_tasks()
    sockets_before = open_sockets()
    file = FileLedger(tmp_path / "day.db")
    budgets = Budgets("USD", per_day=1e6, ledger=file)
    ledger = budgets.day
    model_caller = ModelCaller(budgets, ReplyCache(1 << 18))
    async with provider(Pulse, counts) as (url, opened):
        models = configured(url)
        model = models.get("")
        rng = Random(11)
        cost_trackers: list[CostTracker] = []

        async def caller() -> None:
            while counts["cancelled"] < CANCELS:
                cost_tracker = CostTracker(1e6)
                cost_trackers.append(cost_tracker)
                mode = CacheMode.REFRESH if rng.random() < 0.7 else CacheMode.USE
                call_options = CallOptions.of(
                    asyncio.get_running_loop().time() + 60, cost_tracker, mode
                )
                ask = model_caller.ask(model, question(rng.randrange(TEXTS)), call_options)
                task = asyncio.create_task(ask)
                # One in 64 stays longer, so that some get a verdict on a busy machine too.
                patience = 6 if rng.random() < 1 / 64 else rng.random() ** 2 * MOST_PATIENT_S
                await asyncio.wait({task}, timeout=patience)
                task.cancel()
                await asyncio.wait({task})
                if task.cancelled():
                    counts["cancelled"] += 1
                else:
                    counts[task.result().parsed.status.name] += 1

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        assert counts["cancelled"] >= CANCELS
        assert counts["OK"], "some came in time, so cancels met every stage"
        assert not counts["ERROR"], counts

        # Nothing waits for anything: each caller's end was the end of what it had begun.
        await settled(lambda: not asyncio.all_tasks() - tasks_before)
        assert {cost_tracker.held for cost_tracker in cost_trackers} == {0}
        assert ledger.held == 0
        # What is open will be used again; what was cut off has been closed.
        await settled(lambda: len(opened) <= ROOM)

        # A caller who leaves says nothing of the provider: there is room for as many as before.
        counts["requests"], counts["held"] = 0, 1
        waiting = [
            asyncio.create_task(model_caller.ask(model, question(number), CallOptions.of(None)))
            for number in range(TEXTS, TEXTS + CALLERS)
        ]
        await settled(lambda: counts["requests"] >= ROOM)
        await settled(lambda: len(opened) == ROOM)
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        assert counts["requests"] == ROOM
        counts["held"] = 0

        # And the way is free.
        endings = [
            await model_caller.ask(model, question(TEXTS + number), CallOptions.of(None))
            for number in range(3)
        ]
        assert Status.OK in {answer.parsed.status for answer in endings}
        await models.close()
        file.close()
    await settled(lambda: open_sockets() <= sockets_before)
    await settled(lambda: asyncio.all_tasks() == tasks_before)
    print(dict(counts))


async def fault_reasons(models: ChatModels, items: int, seconds: float) -> Counter[str]:
    """Judge so many contexts in one call of so many seconds; return the reasons of their faults."""
    kind = LlmKind(models, load_builtin(), ModelCaller())
    judge: Any = JudgeCatalog([kind], "llm").choose(JudgeSpec("llm"))
    texts = [f"{TEXT} {number}" for number in range(items)]
    deadline = asyncio.get_running_loop().time() + seconds
    columns = await judge.judge([Group("1", "q", ["e"], texts)], Caller(deadline))
    return Counter(fault.reason for fault in columns.faults)


@pytest.mark.timeout(300)
async def test_a_provider_that_stays_down_is_asked_hardly_more_often_than_a_probe_a_second():
    counts: Counter[str] = Counter()
    async with provider(Down, counts) as (url, _):
        models = configured(url)
        reasons = await fault_reasons(models, ITEMS, 4.0)
        await models.close()
    assert reasons.total() == ITEMS, "each item says that it failed"
    assert set(reasons) <= {"PROVIDER_ERROR", "BREAKER_OPEN", "TIMEOUT"}
    print(f"{counts['requests']} calls for {ITEMS} items")
    assert counts["requests"] <= 48, "a window of them, and the probes"


@pytest.mark.timeout(300)
async def test_one_that_goes_down_in_the_middle_and_comes_back_loses_nothing():
    counts: Counter[str] = Counter()

    class Outage(Pulse):
        """Answers the first tenth, is down for a second, and answers again."""

        began = 0.0

        def _answer(self) -> None:
            loop = asyncio.get_running_loop()
            if counts["requests"] > ITEMS // 10:
                Outage.began = Outage.began or loop.time()
                if loop.time() < Outage.began + 1.0:
                    self._write(DOWN)
                    return
            loop.call_later(0.005, self._write, ANSWER)

    async with provider(Outage, counts) as (url, _):
        models = configured(url)
        reasons = await fault_reasons(models, ITEMS, 60.0)
        await models.close()
    assert reasons.total() == 0
    print(f"{counts['requests']} calls for {ITEMS} items")
    # Those under way when the outage begins are asked again, and as many at most are sent until
    # the breaker has seen enough of them fail; then come some probes in a second.
    assert counts["requests"] <= ITEMS + 2 * ROOM + 8
