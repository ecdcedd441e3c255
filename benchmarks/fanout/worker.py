"""One side of `benchmarks.fanout`: calls the provider on request and reports time and CPU.

Runs in its own process, so that its CPU seconds are those of this side alone. Every line on
standard input is {"calls": N, "seed": S}; inputs are built before the clock starts, and every
answer is read. With "rate": R the judge gets contexts one by one, R a second, and the reply has the
latency of each, minus the provider's time. All sides make the same calls; their bytes differ only
in the marker of each prompt:

    bare    a loop over an aiohttp session that sends prepared bytes
    sdk     the `openai` package's AsyncOpenAI under a semaphore, given prepared texts
    judge   the judge `llm` as the server builds it, given contexts: prompts, limits, parsing,
            cache, and Python's garbage collector as the server sets it

    python -m benchmarks.fanout.worker bare|sdk|judge URL CONCURRENCY
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Protocol

import aiohttp
import openai
import orjson
import uvloop
from judged._load.departures import depart
from judged.values.choices import Status
from judged_server import telemetry
from judged_server.domain import Group, JudgeSpec
from judged_server.judges.base import Caller
from judged_server.judges.llm.judge import LlmKind
from judged_server.llm.budgets import Budgets
from judged_server.llm.caller import ModelCaller
from judged_server.llm.chat import ChatRequest
from judged_server.llm.config import ModelConfiguration, parse_configuration
from judged_server.llm.models import ChatModels
from judged_server.llm.providers.dialects import DIALECTS
from judged_server.llm.question import Question, new_nonce, request_for
from judged_server.llm.reply_cache import ReplyCache
from judged_server.llm.rubrics.rubric import load_builtin
from judged_server.process import settle_heap
from judged_server.store.kept_rows import REPLIES, KeptRows

from benchmarks.fanout.provider import TICKS_A_S
from tests.conformance.prose import words

MODEL = "scripted-1"
PAID = "paid"
"""A model with prices: the server writes its replies to disk before answering."""
RETRIEVED = 10
WORDS = 60
"""A group has one query, one expected text and RETRIEVED retrieved ones, of about WORDS words."""
CACHE_MEMORY_BYTES, CACHE_DISK_BYTES = 64 << 20, 1 << 30
"""The server's defaults."""
_RUBRIC = load_builtin()["retrieval_match"]


class Side(Protocol):
    """One of the compared ways to ask."""

    def prepare(self, groups: list[Group]) -> Callable[[], Awaitable[None]]:
        """Return the function to time."""
        ...


def make_groups(calls: int, seed: int) -> list[Group]:
    """Return groups with `calls` contexts in total; all texts are distinct."""
    rng, prose = random.Random(seed), words()

    def text(size: int) -> str:
        start = rng.randrange(len(prose) - size)
        # A random number makes the text new, whichever passage was chosen.
        return f"{' '.join(prose[start : start + size])} {rng.randrange(10**12)}"

    groups = []
    for begin in range(0, calls, RETRIEVED):
        retrieved = [text(WORDS) for _ in range(min(RETRIEVED, calls - begin))]
        groups.append(Group(str(begin), text(8), [text(WORDS)], retrieved))
    return groups


def _requests(groups: list[Group]) -> list[ChatRequest]:
    return [
        request_for(Question(_RUBRIC, fields, 0, 0.0, 256), new_nonce(), structured=True)
        for g in groups
        for retrieved in g.retrieved
        for fields in [
            {"query": g.query, "expected_text": g.expected[0], "retrieved_text": retrieved}
        ]
    ]


def bodies(groups: list[Group]) -> list[dict[str, object]]:
    """Return the JSON request body for each context."""
    model = ModelConfiguration("scripted", "scripted", MODEL)
    return [DIALECTS["openai"].write_request(model, request) for request in _requests(groups)]


async def _at_once(
    concurrency: int,
    ask: Callable[[dict[str, object]], Awaitable[None]],
    bodies: Iterable[dict[str, object]],
) -> None:
    semaphore = asyncio.Semaphore(concurrency)

    async def one(body: dict[str, object]) -> None:
        async with semaphore:
            await ask(body)

    await asyncio.gather(*map(one, bodies))


def _check(content: object) -> None:
    if not isinstance(content, str) or '"yes"' not in content:
        raise SystemExit("the provider's answer did not arrive")


class Bare:
    """The minimum cost of asking in Python."""

    def __init__(self, url: str, concurrency: int) -> None:
        self._url = f"{url}/chat/completions"
        self._concurrency = concurrency
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=concurrency),
            headers={"Content-Type": "application/json"},
        )

    def prepare(self, groups: list[Group]) -> Callable[[], Awaitable[None]]:
        """Return the loop over prepared bodies."""
        ready = iter([orjson.dumps(body) for body in bodies(groups)])

        async def worker() -> None:
            for body in ready:
                async with self._session.post(self._url, data=body) as reply:
                    answer = orjson.loads(await reply.read())
                _check(answer["choices"][0]["message"]["content"])

        async def run() -> None:
            await asyncio.gather(*(worker() for _ in range(self._concurrency)))

        return run


class Sdk:
    """What most people write: the provider's own package, and a semaphore."""

    def __init__(self, url: str, concurrency: int) -> None:
        self._concurrency = concurrency
        self._client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)

    def prepare(self, groups: list[Group]) -> Callable[[], Awaitable[None]]:
        """Return the loop over prepared arguments."""
        asked = bodies(groups)

        async def ask(body: dict[str, object]) -> None:
            # `create` has overloads for these fields, but a body is typed as any JSON object.
            reply = await self._client.chat.completions.create(**body)  # type: ignore[call-overload]
            _check(reply.choices[0].message.content)

        return lambda: _at_once(self._concurrency, ask, asked)


class JudgeSide:
    """The judge `llm`, configured as in the server."""

    def __init__(self, url: str, concurrency: int) -> None:
        models = ChatModels(parse_configuration(configuration(url, concurrency), "fanout"), {})
        self._folder = tempfile.TemporaryDirectory()
        store = KeptRows(Path(self._folder.name), REPLIES, CACHE_DISK_BYTES)
        asker = ModelCaller(Budgets(), ReplyCache(CACHE_MEMORY_BYTES, store=store))
        kind = LlmKind(models, load_builtin(), asker)
        name = kind.profiles[0].name
        parameters = {p.name: p.default for p in kind.profiles[0].parameters}
        self._judge = kind.build(JudgeSpec("llm", name, 0.5, parameters))

    def prepare(self, groups: list[Group]) -> Callable[[], Awaitable[None]]:
        """Return a function that makes one call of the judge."""

        async def run() -> None:
            columns = await self._judge.judge(groups, Caller())
            if columns.statuses is not None and (columns.statuses != Status.OK).any():
                raise SystemExit(f"verdicts are missing: {columns.faults[0]}")

        return run

    async def latencies_ms(self, groups: list[Group], rate: float) -> list[float]:
        """Return the latency of each context from when it was due, minus the provider's time."""
        alone = iter(
            [
                Group(g.query_id, g.query, g.expected, [retrieved])
                for g in groups
                for retrieved in g.retrieved
            ]
        )

        async def one(due: float) -> float:
            columns = await self._judge.judge([next(alone)], Caller())
            took_s = time.perf_counter() - due
            if columns.usage is None or columns.statuses is not None:
                raise SystemExit("a verdict is missing")
            return 1e3 * (took_s - columns.usage.input_tokens / TICKS_A_S)

        contexts = sum(len(group.retrieved) for group in groups)
        due = (number / rate for number in range(contexts))
        return await depart(time.perf_counter() + 0.05, due, one)


def configuration(url: str, concurrency: int) -> dict[str, object]:
    """Return the configuration of a server that asks the provider of this benchmark.

    It has the same model twice: without prices, the default, and with prices, as PAID.
    """
    model = {"provider": "scripted", "model": MODEL}
    prices = {"input_per_million": 1.0, "output_per_million": 1.0}
    return {
        "providers": [{"name": "scripted", "base_url": url, "max_concurrency": concurrency}],
        "models": [{"name": "scripted", **model}, {"name": PAID, **model, **prices}],
    }


async def serve(side: str, url: str, concurrency: int) -> None:
    """Serve requests from standard input until it ends."""
    telemetry.configure("warning")  # on standard error: standard output has the answers
    kinds: dict[str, Callable[[str, int], Side]] = {"bare": Bare, "sdk": Sdk, "judge": JudgeSide}
    running = kinds[side](url, concurrency)
    if side == "judge":
        settle_heap()
    else:
        gc.collect()
        gc.freeze()
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        if "rate" in order and isinstance(running, JudgeSide):
            groups = make_groups(order["calls"], order["seed"])
            print(json.dumps(await running.latencies_ms(groups, order["rate"])), flush=True)
            continue
        work = running.prepare(make_groups(order["calls"], order["seed"]))
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        await work()
        spent = {
            "wall_s": time.perf_counter() - wall,
            "cpu_s": time.process_time() - cpu,
        }
        print(json.dumps(spent), flush=True)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
