"""A limit on cost is one for the call, however many messages it travels in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from judged import AnswerItem, Asking, CacheMode, Client, QueryGroup, Status
from judged._batching import judging as chunks
from judged._batching import scoring

from tests.fakes.providers.scripted_provider import Asked, Failure, Said
from tests.integration.cli_process import Commands
from tests.integration.llm.budgeted_server import say
from tests.integration.llm_config import priced

N, MESSAGES = 200, 10


def script(asked: Asked) -> Said:
    return Failure(500) if "fails" in asked.user else say(asked)


LLM_MODELS = {"small": priced(1.0, 2.0), "other": priced(1.0, 2.0)}


def groups(n: int = N) -> list[QueryGroup]:
    return [QueryGroup("q?", ["an expected text"], [f"retrieved {i:05}"]) for i in range(n)]


def items(n: int = N) -> list[AnswerItem]:
    return [AnswerItem(f"{i:05}", "q?", f"answer {i:05}") for i in range(n)]


def limit_for(client: Client, about: int) -> Asking:
    """A limit that pays for about so many of the groups, and for some of the answers."""
    one = client.judge(groups(1), "llm", asking=Asking(CacheMode.REFRESH)).usage
    never_asked = AnswerItem("n", "q?", "an answer that no test asks about")
    most = client.estimate_scores([never_asked], ["helpfulness"]).cost
    assert most
    return Asking(CacheMode.REFRESH, (one.cost or 0) * about + most)


@pytest.fixture
def in_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 200 items travel in ten messages."""
    monkeypatch.setattr(chunks, "CHUNK_CONTEXTS", N // MESSAGES)
    monkeypatch.setattr(scoring, "PART_SCORES", N // MESSAGES)


def judged(client: Client, asking: Asking) -> int:
    found = client.judge(groups(), "llm", asking=asking)
    assert (found.usage.cost or 0) <= (asking.max_cost or 0)
    told = {error.message for error in found.errors.values()}
    [message] = told
    assert f"max_cost of {asking.max_cost:.6g} USD" in message
    return sum(status == Status.OK for status in found.status)


def scored(client: Client, asking: Asking) -> int:
    found = client.score_answers(items(), ["helpfulness"], asking=asking)
    assert (found.usage.cost or 0) <= (asking.max_cost or 0)
    [message] = {score.error.message for score in found.scores if score.error is not None}
    assert f"max_cost of {asking.max_cost:.6g} USD" in message
    return sum(score.status is Status.OK for score in found.scores)


def streamed(client: Client, asking: Asking) -> int:
    parts = [groups()[i : i + N // MESSAGES] for i in range(0, N, N // MESSAGES)]
    found = [each.verdicts for each in client.judge_stream(parts, "llm", asking=asking)]
    return sum(status == Status.OK for each in found if each for status in each.status)


def evaluated(client: Client, asking: Asking) -> int:
    work = [replace(group, query_id=str(i)) for i, group in enumerate(groups())]
    found = client.evaluate(work, ["mrr"], "llm", asking=asking, include_verdicts=True)
    return sum(status == Status.OK for status in found.verdicts.status)


@pytest.mark.parametrize("how", [streamed, evaluated])
def test_a_stream_has_one_limit_too(client: Client, how):
    asking = limit_for(client, 32)
    assert abs(how(client, asking) - judged(client, asking)) <= 1


@pytest.mark.parametrize("about", [5, 32, 120])
@pytest.mark.parametrize("how", [judged, scored])
def test_as_many_are_answered_in_ten_messages_as_in_one(
    client: Client, request: pytest.FixtureRequest, how, about: int
):
    asking = limit_for(client, about)
    in_one = how(client, asking)
    request.getfixturevalue("in_ten")
    assert 1 <= in_one < N
    assert abs(how(client, asking) - in_one) <= 1


def test_the_command_line_warns_once_and_names_what_was_typed(judged: Commands, tmp_path: Path):
    lines = [
        {"query": "q?", "expected_text": "an expected text", "retrieved_text": f"typed {i:05}"}
        for i in range(600)
    ]
    judged.write("c.jsonl", lines)
    answers = [{"item_id": str(i), "query": "q?", "answer": f"typed {i}"} for i in range(1100)]
    judged.write("a.jsonl", answers)
    for command in (
        ("judge", "c.jsonl", "--judge", "llm"),
        ("score", "a.jsonl", "--rubric", "helpfulness"),
    ):
        done = judged(*command, "--max-cost", ".01")
        told = [line for line in done.stderr.splitlines() if "max_cost of" in line]
        assert len(told) == 1, done.stderr
        assert "max_cost of 0.01 USD" in told[0]
