"""Answers of several systems ranked: the clients, `compare_answers` and `judged rank`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged import Client, IntervalOptions, InvalidArgument
from judged.evaluation import CandidateAnswer, compare_answers

from tests.integration.cli_process import Commands
from tests.integration.llm_config import fake_llm_config, priced
from tests.integration.server_process import running_server

FEW = IntervalOptions(resamples=200)


def says(grade: str, answer: str, other: str) -> dict[str, object]:
    return {
        "contains": {"answer": answer, "other_answer": other},
        "reply": {"reasoning": "r", "grade": grade},
    }


REPLIES = [
    {"contains": {"query": "vain"}, "reply": {"reasoning": "r", "grade": "first"}},
    {"contains": {"query": "lost"}, "reply": "I can't say.", "finish_reason": "refusal"},
    says("first", "good", "fair"),
    says("second", "fair", "good"),
    says("first", "fair", "poor"),
    says("second", "poor", "fair"),
    says("first", "good", "poor"),
    says("second", "poor", "good"),
    {"reply": {"reasoning": "r", "grade": "tie"}},
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("llm")
    config = fake_llm_config(folder, {"judge": REPLIES}, priced(1.0, 1.0))
    with running_server("--llm-config", config, "--llm-cache", "off") as ready:
        yield ready.address


def answers(n: int, query: str = "q") -> list[CandidateAnswer]:
    """Three systems, of which one is better than the next; they tie on every third query."""
    return [
        CandidateAnswer(f"{query}{i}", system, f"{query}{i}", "same" if i % 3 == 0 else system)
        for i in range(n)
        for system in ("poor", "good", "fair")
    ]


def test_systems_are_ranked_by_pairs_in_both_orders(client: Client):
    found = compare_answers(answers(9), client=client, interval=FEW)
    ranking = found.ranking
    assert [system.name for system in ranking.systems] == ["good", "fair", "poor"]
    good, fair, poor = ranking.systems
    assert (good.wins, good.ties, good.losses) == (24, 12, 0)
    assert (fair.wins, fair.ties, fair.losses) == (12, 12, 12)
    assert good.strength.interval.lower > 0 > (poor.strength.value or 0)
    assert (ranking.position.pairs, ranking.position.same) == (27, 27)
    assert ranking.position.preference_for_first == 0.5
    assert (len(found.comparisons), found.missing, ranking.queries) == (54, 0, 9)
    assert ranking.to_rows()[0]["system"] == "good"


def test_a_judge_that_takes_the_first_is_seen(client: Client):
    ranking = compare_answers(answers(6, "vain"), client=client, interval=FEW).ranking
    assert ranking.position.preference_for_first == (12 * 1 + 6 * 0.5) / 18
    assert (ranking.position.first, ranking.position.same) == (12, 6)  # equal answers tie
    assert [system.strength.value for system in ranking.systems] == pytest.approx([0, 0, 0])


def test_an_empty_answer_loses_without_a_call_and_refusals_are_left_out(client: Client):
    some = [
        *answers(3),
        CandidateAnswer("e", "good", "e", "good"),
        CandidateAnswer("e", "poor", "e", " "),
        CandidateAnswer("f", "good", "f", "good"),
        *answers(2, "lost")[3:],
    ]
    found = compare_answers(some, client=client, interval=FEW)
    assert (found.missing, found.alone) == (6, ["f"])
    assert [c.preference for c in found.comparisons if c.query_id == "e"] == [1, 0]
    assert found.scores.usage.calls == 2 * 6 + 6  # three equal answers tie without a call
    with pytest.raises(InvalidArgument, match=r"none of 6 comparisons has an outcome \(REFUSED\)"):
        compare_answers(answers(2, "lost")[3:], client=client)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [
        {"query_id": a.query_id, "query": a.query, "system": a.system, "answer": a.answer}
        for a in answers(6)
    ]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def test_the_command_ranks_a_file(folder: Path, judged: Commands):
    done = judged.fine("rank", "answers.jsonl", "--resamples", "200", "--json", "out.json")
    assert "of 18 pairs in both orders 18 have the same outcome" in done.stdout
    assert "6 queries are few" in done.stderr
    written = judged.read("out.json")
    assert [system["name"] for system in written["systems"]] == ["good", "fair", "poor"]
    assert written["usage"]["calls"] == 24
    assert written["position"]["same"] == 18
    assert len(written["comparisons"]) == 36


def test_an_estimate_and_a_limit_hold(folder: Path, judged: Commands):
    done = judged("rank", "answers.jsonl", "--estimate", "--json", "-")
    assert json.loads(done.stdout)["estimate"]["calls"] == 24
    assert "24 scores missing: BUDGET" in judged.refused(
        "rank", "answers.jsonl", "--max-cost", "1e-9"
    )
