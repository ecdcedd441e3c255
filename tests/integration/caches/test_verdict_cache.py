"""The verdict cache from the client to the provider: counts of calls, over a real server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from judged import Asking, CacheMode, Client, Judge, QueryGroup, Source, Status

from tests.fakes.providers.scripted_provider import Answer, Asked, Said, ScriptedProvider
from tests.integration.llm_config import priced

CLIENTS = 50
CONTEXTS = 200

LLM_MODELS = {"small": priced(1.0, 2.0)}
LLM_FLAGS = ("--llm-cache", "memory")
ONLY, REFRESH = Asking(CacheMode.ONLY), Asking(CacheMode.REFRESH)
_RETRIEVED = re.compile(r'name="retrieved_text">\n(.*)\n<')


def script(asked: Asked) -> Said:
    """Say yes to texts with "yes" in them, take a moment for slow ones, refuse the others."""
    text = json.loads(_RETRIEVED.findall(asked.user)[0])
    if text.startswith("refuse"):
        return Answer("", refusal="I can't help with that.")
    answer = {"reasoning": "so it is", "verdict": "yes" if "yes" in text else "no"}
    return Answer(json.dumps(answer), delay_s=0.05 if "slow" in text else 0.0)


@pytest.fixture
def calls(provider: ScriptedProvider) -> Callable[[], int]:
    """Return how many requests the provider had since the test began."""
    before = provider.requests
    return lambda: provider.requests - before


@pytest.fixture
def group(request: pytest.FixtureRequest) -> Callable[..., QueryGroup]:
    """Build groups whose query is the test's own."""
    return lambda *retrieved: QueryGroup(request.node.name, ["e"], retrieved, "1")


def judge(min_score: float | None = None, **parameters: object) -> Judge:
    return Judge("llm", min_score=min_score, parameters=parameters)


Group = Callable[..., QueryGroup]
Calls = Callable[[], int]


class TestModes:
    def test_the_second_time_nothing_is_asked_and_nothing_costs(
        self, client: Client, group: Group, calls: Calls
    ):
        first = client.judge([group("yes", "no")], judge(samples=3))
        again = client.judge([group("no", "new", "yes")], judge(samples=3))
        assert calls() == 9
        assert set(first.source) == {Source.COMPUTED}
        assert again.source == [Source.CACHE, Source.COMPUTED, Source.CACHE]
        assert again.relevant == [False, False, True]
        assert (again.usage.calls, again.usage.cached) == (3, 6)
        warm = client.judge([group("yes")], judge(samples=3), include_details=True)
        assert (warm.usage.calls, warm.usage.cost, warm.usage.cached) == (0, 0, 3)
        detail = warm[0].detail
        assert detail.rationale == "so it is"
        assert detail.model == "scripted-1-2024-07-18"

    def test_another_bar_asks_nobody(self, client: Client, group: Group, calls: Calls):
        assert client.judge([group("yes", "no")], judge()).relevant == [True, False]
        strict = client.judge([group("yes", "no")], judge(1.0))
        lax = client.judge([group("yes", "no")], judge(0.0))
        assert {*strict.source, *lax.source} == {Source.CACHE}
        assert strict.judge.min_score == 1.0
        assert calls() == 2

    def test_only_asks_nobody_and_says_what_to_do(self, client: Client, group: Group, calls: Calls):
        client.judge([group("yes")], judge())
        found = client.judge([group("yes", "no")], judge(), asking=ONLY)
        assert found.status == [Status.OK, Status.ERROR]
        error = found[1].error
        assert (error.code, error.reason, error.retryable) == (9, "NOT_CACHED", False)
        assert "CacheMode.USE" in error.message
        assert calls() == 1

    def test_abstentions_are_asked_again(self, client: Client, group: Group, calls: Calls):
        for _ in range(2):
            assert client.judge([group("refuse")], judge()).status == [Status.ABSTAINED]
        assert calls() == 2


class TestSharing:
    def test_fifty_clients_with_the_same_contexts_are_one(
        self, target: str, group: Group, calls: Calls
    ):
        texts = [f"slow {'yes' if n % 3 else 'no'} {n}" for n in range(CONTEXTS)]

        def ask(_: int) -> tuple[list[int], list[bool | None], int]:
            with Client(target) as client:
                found = client.judge([group(*texts)], judge(), timeout=300)
                return list(found.source), list(found.relevant), found.usage.calls

        with ThreadPoolExecutor(CLIENTS) as pool:
            answers = list(pool.map(ask, range(CLIENTS)))
        assert all(relevant == answers[0][1] for _, relevant, _ in answers)
        assert answers[0][1] == [n % 3 > 0 for n in range(CONTEXTS)]
        ratio = calls() / CONTEXTS
        print(f"{CLIENTS} clients, {CONTEXTS} contexts: {calls()} calls, ratio {ratio}")
        assert ratio <= 1.01
        assert sum(called for _, _, called in answers) == calls()
        sources = [source for some, _, _ in answers for source in some]
        assert sources.count(Source.COMPUTED) == calls()
