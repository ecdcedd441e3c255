"""Evaluations by a language model, interrupted at random moments and run again.

Run again, they are what an uninterrupted evaluation is, byte for byte, and cost no more.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from judged import Asking, AsyncClient, CacheMode, Client
from judged._batching import judging as chunks
from judged.evaluation import AsyncEvaluator, Dataset, Query, Question, evaluate_answers
from judged.evaluation.aio import evaluate_answers as await_answers

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, ScriptedProvider
from tests.integration.llm_config import llm_config
from tests.integration.server_process import ServerProcess, running_server

ROUNDS = int(os.environ.get("JUDGED_INTERRUPTIONS", "20"))
QUERIES = 6
METRICS = ["mrr@2", "recall@2"]
_JUDGED = re.compile(r'name="(?:retrieved_text|answer)">\n(.*)\n<')


class Script:
    """Says yes to every other text; tells `on_asked` of each question before it answers."""

    def __init__(self) -> None:
        self.on_asked: Callable[[int], None] | None = None
        self.asked: Counter[str] = Counter()

    def __call__(self, asked: Asked) -> dict[str, str]:
        text = json.loads(_JUDGED.findall(asked.user)[0])
        self.asked[text] += 1
        if self.on_asked is not None:
            self.on_asked(self.asked.total())
        yes = text.endswith("even")
        return {"reasoning": "read", "verdict": "yes" if yes else "no"}


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


@pytest.fixture(scope="module")
def provider(script: Script) -> Iterator[ScriptedProvider]:
    with provider_on_a_thread(script) as running:
        yield running


@pytest.fixture(scope="module")
def llm_server(
    provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("llm")
    config = llm_config(folder, provider, provider_lines="max_concurrency = 1")
    # Without a cache nothing but the call itself can spare a second charge.
    with running_server("--llm-config", config, "--llm-cache", "off") as ready:
        yield ready


async def test_the_document_is_that_of_an_uninterrupted_run_and_nothing_is_charged_twice(
    llm_server: ServerProcess, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rng = random.Random(19)
    async with AsyncClient(llm_server.address) as client:
        for number in range(ROUNDS):
            monkeypatch.setattr(chunks, "ASKED_CONTEXTS", rng.choice([1, 2, 3, 5, 64]))
            await _interrupt_once(client, script, rng, number, tmp_path)


async def _interrupt_once(
    client: AsyncClient, script: Script, rng: random.Random, number: int, folder: Path
) -> None:
    """Interrupt an evaluation when one of its questions arrives, and run it again."""
    dataset = Dataset([Query(f"q{i}", f"{number}: question {i}", ["e"]) for i in range(QUERIES)])
    results = {
        f"q{i}": [f"{number}: text {i} {kind}" for kind in ("odd", "even")] for i in range(QUERIES)
    }
    script.asked.clear()
    loop, arrived = asyncio.get_running_loop(), asyncio.Event()
    at = rng.randrange(1, 2 * QUERIES + 1)

    def on_asked(n: int) -> None:
        if n == at:
            loop.call_soon_threadsafe(arrived.set)

    async def evaluate(resume: str) -> str:
        done = await AsyncEvaluator(client).evaluate(
            results, dataset, METRICS, judge="llm", resume=folder / resume
        )
        return done.to_json()

    script.on_asked = on_asked
    running = asyncio.create_task(evaluate(f"{number}.resume"))
    await asyncio.wait_for(arrived.wait(), 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    script.on_asked = None
    again = await evaluate(f"{number}.resume")
    assert len(script.asked) == script.asked.total() == 2 * QUERIES
    assert await evaluate(f"{number}.resume") == again
    assert script.asked.total() == 2 * QUERIES
    assert await evaluate(f"{number}.whole") == again


@pytest.mark.parametrize("mode", [CacheMode.USE, CacheMode.REFRESH])
async def test_no_score_of_an_interrupted_evaluation_of_answers_is_charged_twice(
    llm_server: ServerProcess, script: Script, tmp_path: Path, mode: CacheMode
):
    questions = [Question(str(n), f"{mode.name} {n}", ["even"]) for n in range(QUERIES)]
    log, loop, arrived = tmp_path / "said.jsonl", asyncio.get_running_loop(), asyncio.Event()
    script.asked.clear()

    def on_asked(n: int) -> None:
        if n == QUERIES // 2:
            loop.call_soon_threadsafe(arrived.set)

    script.on_asked = on_asked
    async with AsyncClient(llm_server.address) as client:
        running = asyncio.create_task(
            await_answers(
                *(questions, str, ["answer_match"]),
                client=client,
                resume=log,
                asking=Asking(mode),
            )
        )
        await asyncio.wait_for(arrived.wait(), 60)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    script.on_asked = None

    def again() -> int:
        """Return what was asked in all, once they are evaluated again."""
        with Client(llm_server.address) as other:
            found = evaluate_answers(
                *(questions, str, ["answer_match"]), client=other, resume=log, asking=Asking(mode)
            )
        assert all(item.resumed and len(item.scores) == 1 for item in found.items)
        assert found.rubrics[0].counts.ok == QUERIES
        return script.asked.total()

    assert again() == len(script.asked) == QUERIES
    # All have their scores: what is asked from now on is asked anew, on a server without a cache.
    assert again() == 2 * QUERIES
