"""Evaluations by a language model, interrupted at random moments and run again.

Run again, they are what an uninterrupted evaluation is, byte for byte, and cost no more.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from judged import Asking, CacheMode, Client
from judged._batching import judging as chunks
from judged.evaluation import (
    AnswerEvaluation,
    Dataset,
    Evaluator,
    Query,
    Question,
    evaluate_answers,
)

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


def interrupt(script: Script, at: int, work: Callable[[], object]) -> None:
    """Interrupt work, as the interrupt key does, when a question of its arrives."""

    def on_asked(n: int) -> None:
        if n == at:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    script.asked.clear()
    # Whatever a test before has left of the interrupt: by default it ends who runs the tests.
    before, told = (
        signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.set_wakeup_fd(-1),
    )
    try:
        with pytest.raises(KeyboardInterrupt):
            # Not before: a question of the work before may still arrive.
            script.on_asked = on_asked
            work()
    finally:
        script.on_asked = None
        signal.signal(signal.SIGINT, before)
        signal.set_wakeup_fd(told)


def test_the_document_is_that_of_an_uninterrupted_run_and_nothing_is_charged_twice(
    llm_server: ServerProcess, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rng = random.Random(19)
    with Client(llm_server.address) as client:
        for number in range(ROUNDS):
            monkeypatch.setattr(chunks, "ASKED_CONTEXTS", rng.choice([1, 2, 3, 5, 64]))
            dataset = Dataset(
                [Query(f"q{i}", f"{number}: question {i}", ["e"]) for i in range(QUERIES)]
            )
            results = {
                f"q{i}": [f"{number}: text {i} {kind}" for kind in ("odd", "even")]
                for i in range(QUERIES)
            }

            def evaluate(
                resume: str, dataset: Dataset = dataset, results: dict[str, list[str]] = results
            ) -> str:
                done = Evaluator(client).evaluate(
                    results, dataset, METRICS, judge="llm", resume=tmp_path / resume
                )
                return done.to_json()

            file = f"{number}.resume"
            interrupt(script, rng.randrange(1, 2 * QUERIES + 1), partial(evaluate, file))
            again = evaluate(file)
            assert len(script.asked) == script.asked.total() == 2 * QUERIES
            assert evaluate(file) == again
            assert script.asked.total() == 2 * QUERIES
            assert evaluate(f"{number}.whole") == again


@pytest.mark.parametrize("mode", [CacheMode.USE, CacheMode.REFRESH])
def test_no_score_of_an_interrupted_evaluation_of_answers_is_charged_twice(
    llm_server: ServerProcess, script: Script, tmp_path: Path, mode: CacheMode
):
    questions = [Question(str(n), f"{mode.name} {n}", ["even"]) for n in range(QUERIES)]

    def evaluate() -> AnswerEvaluation:
        with Client(llm_server.address) as client:
            return evaluate_answers(
                questions,
                str,
                ["answer_match"],
                client=client,
                resume=tmp_path / "said.jsonl",
                asking=Asking(mode),
            )

    interrupt(script, QUERIES // 2, evaluate)
    # Once all have their scores, what is asked is asked anew, on a server without a cache.
    for total in (QUERIES, 2 * QUERIES):
        found = evaluate()
        assert all(item.resumed and len(item.scores) == 1 for item in found.items)
        assert found.rubrics[0].counts.ok == QUERIES
        assert len(script.asked) == QUERIES
        assert script.asked.total() == total
