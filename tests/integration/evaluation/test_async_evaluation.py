"""`judged.evaluation.aio` on an event loop gives what `judged.evaluation` gives."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged import AsyncClient, Client
from judged import evaluation as plain
from judged.evaluation import Dataset, Query, Question, aio

from tests.integration.llm_config import fake_llm_config
from tests.integration.server_process import running_server

QUESTIONS = [Question(f"q{i}", f"question {i}", references=["a good answer"]) for i in range(6)]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    replies = {"small": [{"reply": {"reasoning": "r", "score": 0.9}}]}
    config = fake_llm_config(tmp_path_factory.mktemp("llm"), replies)
    with running_server("--llm-config", config, "--llm-cache", "off") as ready:
        yield ready.address


async def test_a_cancelled_evaluation_asks_its_system_no_more_and_goes_on_later(
    client: Client, tmp_path: Path
):
    loop, second, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()
    asked: list[str] = []

    def system(query: str) -> str:
        asked.append(query)
        if len(asked) == 2:
            loop.call_soon_threadsafe(second.set)
            go_on.wait(60)
        return "an answer"

    async def evaluate() -> plain.AnswerEvaluation:
        async with AsyncClient(client.target) as connected:
            return await aio.evaluate_answers(
                *(QUESTIONS, system, ["helpfulness"]),
                client=connected,
                resume=tmp_path / "answers.resume",
                concurrency=1,
            )

    running = asyncio.create_task(evaluate())
    await asyncio.wait_for(second.wait(), 60)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
    go_on.set()
    found = await evaluate()
    # The answer that was on its way may have come in time to be kept.
    first, _, *others = [item.resumed for item in found.items]
    assert (first, others) == (True, [False] * 4)
    assert len(asked) == 2 + sum(not item.resumed for item in found.items)


class Retriever:
    """Finds one text for every query; the second asked waits until the test lets it go on."""

    def __init__(self) -> None:
        self.second, self.go_on = threading.Event(), threading.Event()
        self.asked: list[str] = []
        self.threads: set[threading.Thread] = set()

    def find(self, query: str, k: int) -> list[str]:
        del k
        self.threads.add(threading.current_thread())
        self.asked.append(query)
        if len(self.asked) == 2:
            self.second.set()
            self.go_on.wait(60)
        return [query]

    async def find_async(self, query: str, k: int) -> list[str]:
        return self.find(query, k)


@pytest.mark.parametrize(
    ("method", "concurrency"), [("find", None), ("find", 2), ("find_async", 1), ("find_async", 2)]
)
async def test_a_cancelled_evaluation_asks_its_retriever_no_more(
    client: Client, tmp_path: Path, method: str, concurrency: int | None
):
    retriever = Retriever()
    dataset = Dataset([Query(f"q{n}", f"question {n}", ["e"]) for n in range(50)])
    async with AsyncClient(client.target) as connected:
        running = asyncio.create_task(
            plain.AsyncEvaluator(connected).evaluate(
                *(getattr(retriever, method), dataset, ["mrr@1"]),
                judge="exact",
                resume=tmp_path / "r.resume",
                concurrency=concurrency,
                k=1,
            )
        )
        assert await asyncio.to_thread(retriever.second.wait, 60)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()
    before = len(retriever.asked)
    retriever.go_on.set()
    for thread in list(retriever.threads):
        await asyncio.to_thread(thread.join, 60)
        assert not thread.is_alive()
    # One that another thread was about to ask is under way too.
    assert len(retriever.asked) <= before + (concurrency or 1) - 1
    assert all(thread.daemon for thread in retriever.threads)


HANGING = """
import asyncio, threading
from judged import AsyncClient
from judged.evaluation import AsyncEvaluator, Dataset, Query

asked = threading.Event()

def find(query, k):
    asked.set()
    threading.Event().wait()

async def main():
    dataset = Dataset([Query("q", "question", ["e"])])
    async with AsyncClient("ADDRESS") as client:
        evaluating = AsyncEvaluator(client).evaluate(
            find, dataset, ["mrr@1"], judge="exact", concurrency=CONCURRENCY
        )
        running = asyncio.create_task(evaluating)
        while not asked.is_set():
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    print("left", running.cancelled())

asyncio.run(main())
"""


@pytest.mark.parametrize("concurrency", [None, 3])
def test_a_retriever_that_hangs_does_not_keep_python_from_exiting(
    server_address: str, concurrency: int | None
):
    program = HANGING.replace("CONCURRENCY", repr(concurrency)).replace("ADDRESS", server_address)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "left True\n", "")
