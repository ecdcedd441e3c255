"""Answers scored by a panel of models: a real server, a provider that answers from files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged import AnswerItem, Client, Status
from judged.evaluation import score_by_panel

from tests.integration.cli_process import Commands, lines_of
from tests.integration.llm_config import fake_llm_config, priced
from tests.integration.server_process import running_server

ITEMS = [AnswerItem(name, "q", name) for name in ("good", "mixed", "poor", "lost", "empty")]
ITEMS[-1] = AnswerItem("empty", "q", "")
SCORES = {
    "lenient": {"good": 0.9, "mixed": 0.8, "poor": 0.4},
    "strict": {"good": 0.8, "mixed": 0.1, "poor": 0.0},
    "middle": {"good": 1.0, "mixed": 0.75, "poor": 0.2, "lost": 0.9},
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    replies: dict[str, list[object]] = {}
    for model, scores in SCORES.items():
        replies[model] = [
            {"contains": {"answer": text}, "reply": {"reasoning": model, "score": score}}
            for text, score in scores.items()
        ]
        replies[model].append({"reply": "I can't say.", "finish_reason": "refusal"})
    config = fake_llm_config(tmp_path_factory.mktemp("llm"), replies, priced(1.0, 1.0))
    with running_server("--llm-config", config) as ready:
        yield ready.address


@pytest.mark.parametrize(
    ("combine", "scores", "passed"),
    [
        ("mean", [0.9, 0.55, 0.2], [True, False, False]),
        ("median", [0.9, 0.75, 0.2], [True, True, False]),
        ("vote", [1.0, 2 / 3, 0.0], [True, True, False]),
    ],
)
def test_scores_are_combined(client: Client, combine: str, scores: list[float], passed: list[bool]):
    told: list[tuple[int, int]] = []
    found = score_by_panel(
        ITEMS, ["helpfulness"], list(SCORES), client=client, combine=combine,
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    panel = found.scores.scores
    assert [score.score for score in panel[:3]] == pytest.approx(scores)
    assert [score.passed for score in panel[:3]] == passed
    assert [score.agreement for score in panel[:3]] == pytest.approx([1, 2 / 3, 1])
    lost, empty = panel[3:]  # one of three answered; nothing is to be scored
    assert (lost.status, lost.error.reason) == (Status.ABSTAINED, "NO_QUORUM")
    assert empty.status is Status.NOT_ASSESSABLE
    summary = found.scores.summary("helpfulness")
    assert (summary.counts.ok, summary.counts.abstained) == (3, 1)
    assert summary.mean == pytest.approx(sum(scores) / 3)
    assert found.members["strict"].scores[1].score == 0.1
    assert found.scores.usage.calls + found.scores.usage.cached == 12
    assert told[-1][0] == told[-1][1] == 15
    judge = panel[0].judge
    assert judge.signature.startswith(f"score_panel|combine:{combine}|members:")


MEMBERS = [word for model in SCORES for word in ("--member", model)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    lines = [{"item_id": i.item_id, "query": i.query, "answer": i.answer} for i in ITEMS[:4]]
    (tmp_path / "answers.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def test_the_command_scores_by_a_panel(judged: Commands, client: Client, folder: Path):
    command = ("score", "answers.jsonl", "--rubric", "helpfulness", *MEMBERS)
    done = judged.fine(
        *(*command, "--combine", "median", "--details"),
        *("--output", "scores.jsonl", "--json", "doc.json"),
    )
    there = score_by_panel(
        ITEMS[:4], ["helpfulness"], list(SCORES), client=client, combine="median"
    )
    lines = lines_of((folder / "scores.jsonl").read_text())
    assert [line["score"] for line in lines] == [score.score for score in there.scores]
    assert [line["status"] for line in lines] == ["OK", "OK", "OK", "ABSTAINED"]
    assert [list(line["members"]) for line in lines] == [list(SCORES)] * 4
    strict = lines[1]["members"]["strict"]
    assert (strict["score"], strict["passed"]) == (0.1, False)
    assert strict["detail"]["raw_replies"]
    assert lines[3]["members"]["strict"]["error"]["reason"] == "REFUSED"
    document = judged.read("doc.json")
    assert document["scores"] == lines
    signature = document["rubrics"]["helpfulness"]["signature"]
    assert signature.startswith("score_panel|combine:median|")
    assert f"judge {signature}" in done.stdout
    again = judged(*command, "--estimate")
    assert re.search(r"^contexts +12$", again.stdout, re.MULTILINE)  # of all members
