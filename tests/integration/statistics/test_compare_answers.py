"""`judged compare` over documents of answers: scores by rubrics, and metrics of texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.cli_process import Commands, run_in
from tests.integration.llm_config import fake_llm_config

ITEMS = [f"item{n}" for n in range(8)]
REPLIES = [
    {"contains": {"answer": "poor"}, "reply": {"reasoning": "r", "score": 0.2}},
    {"contains": {"answer": "lost"}, "reply": "I can't say.", "finish_reason": "refusal"},
    {"reply": {"reasoning": "r", "score": 0.9}},
]


def write(folder: Path, name: str, answers: list[str]) -> None:
    lines = [
        {"item_id": item, "query": "q", "answer": answer, "references": ["a good answer"]}
        for item, answer in zip(ITEMS, answers, strict=True)
    ]
    (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scores of three systems: all good, the half poor, one item without a score."""
    folder = tmp_path_factory.mktemp("answers")
    config = fake_llm_config(folder, {"judge": REPLIES})
    good = ["a good answer"] * 8
    for name, answers in (
        ("good", good),
        ("poor", ["a poor answer"] * 4 + good[4:]),
        ("lost", ["lost", *good[1:]]),
    ):
        write(folder, name, answers)
        scored = ["score", f"{name}.jsonl", "--rubric", "helpfulness", "--json", f"{name}.json"]
        done = run_in(folder, *scored, JUDGED_LLM_CONFIG=config)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def judged(folder: Path, server_address: str) -> Commands:
    return Commands(folder, server_address)


def test_scores_are_compared_item_by_item(folder: Path, judged: Commands):
    done = judged("compare", "good.json", "poor.json", "--json", "-")
    [made] = json.loads(done.stdout)["comparisons"]
    assert (done.returncode, made["metric"], made["n"]) == (0, "helpfulness", 8)
    assert made["difference"]["value"] == pytest.approx(-0.35)
    assert made["difference"]["interval"]["upper"] < 0
    assert (made["wins"], made["losses"], made["ties"]) == (0, 4, 4)
    assert made["effect_size"] is not None


@pytest.mark.parametrize(
    ("allowed", "status", "says"),
    [("0.4", 0, "passed: helpfulness of poor was "), ("0.1", 1, "failed: helpfulness of")],
)
def test_a_drop_from_the_baseline_is_a_gate(
    folder: Path, judged: Commands, allowed: str, status: int, says: str
):
    done = judged("compare", "good.json", "poor.json", "--max-drop", f"helpfulness={allowed}")
    assert done.returncode == status, done.stderr
    assert says in done.stderr


def test_a_missing_score_is_left_out_and_counts_as_the_worst_in_a_gate(
    folder: Path, judged: Commands
):
    command = ("compare", "good.json", "lost.json", "--json", "-")
    done = judged(*command)
    assert json.loads(done.stdout)["comparisons"][0]["n"] == 7
    assert "lost: 1 item left out, without a value by each metric compared" in done.stderr
    gated = judged(*command, "--max-drop", "helpfulness=0.1")
    [gate] = json.loads(gated.stdout)["gates"]
    assert (gated.returncode, gate["passed"]) == (1, False)
    assert gate["worst_case"] == pytest.approx(0.9 / 8)


def test_metrics_of_texts_are_compared(folder: Path, judged: Commands):
    unread = {"item_id": "unread", "query": "?", "answer": "東京", "references": ["大阪"]}
    for name in ("good", "poor"):
        with (folder / f"{name}.jsonl").open("a") as file:
            file.write("\n" + json.dumps(unread))
        metrics = ["-m", "token_f1", "-m", "rougeL"]
        judged.fine("texts", f"{name}.jsonl", *metrics, "--json", f"{name}_texts.json")
    for metric, n in (("token_f1", 9), ("rougeL", 8)):
        done = judged("compare", "good_texts.json", "poor_texts.json", "-m", metric, "--json", "-")
        [made] = json.loads(done.stdout)["comparisons"]
        assert (made["metric"], made["n"], made["losses"]) == (metric, n, 4)
    judged.fine("texts", "poor.jsonl", "-m", "token_f1", "--json", "less.json")
    done = judged("compare", "good_texts.json", "less.json")
    assert "not compared, since not every document has it: rougeL" in done.stderr
