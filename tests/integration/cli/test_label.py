"""`judged label --summary`, from judged lines to corrected means, against a real server."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path

from judged.labelling import Judged, Label, LabelFile

from tests.integration.cli_process import Commands, run_in

ITEMS, N = 400, 120
LABEL = ("label", "results.jsonl", "-o", "labels.jsonl", "-n", str(N))


def people_say(number: int) -> bool:
    """What is true of an item: its score is right eight times in ten."""
    return (number % 10 < 5) ^ (random.Random(number).random() < 0.2)


def fill(folder: Path) -> float:
    """Write judged lines; return the share of items that are relevant."""
    lines = [
        {
            "id": f"i{n}",
            "query_id": f"q{n // 2}",
            "query": f"question {n}",
            "expected_text": "expected",
            "retrieved_text": f"found {n}",
            "status": "OK",
            "relevant": n % 10 < 6,  # one in ten is said to be relevant, and seldom is
            "score": 1 - (n % 10) / 10,
        }
        for n in range(ITEMS)
    ]
    lines.append({**lines[0], "id": "failed", "status": "ERROR", "relevant": None, "score": None})
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return sum(people_say(n) for n in range(ITEMS)) / ITEMS


def label(folder: Path) -> None:
    """Label the drawn items as people would."""
    judged, now = Judged.read(folder / "results.jsonl"), datetime(2026, 1, 31, tzinfo=UTC)
    labels, chances = LabelFile.read(folder / "labels.jsonl", judged.items), judged.probabilities(N)
    for name in (item.item_id for item in judged.drawn(N)):
        labels.add(Label(name, people_say(int(name[1:])), now, chances[name]))


def test_labels_correct_what_the_judge_says(tmp_path: Path, judged: Commands) -> None:
    truth = fill(tmp_path)

    def run(*arguments: str) -> str:
        done = judged.fine(*LABEL, *arguments)
        return done.stdout + done.stderr

    label(tmp_path)
    said = run("--summary", "--json", "out.json")
    assert "1 line without a verdict" in said
    found = judged.read("out.json")
    assert found["counted"] == N
    share = found["means"]["share of relevant items"]
    interval = share["corrected"]["interval"]
    assert interval["lower"] < truth < interval["upper"]
    assert share["n_labelled"] < share["n"] == ITEMS / 2  # queries
    done = judged.fine("calibrate", "labels.jsonl", "--judge", "token_overlap")
    assert "drawn to be labelled with unequal probabilities" in done.stderr


def test_what_can_not_be_done_is_told(tmp_path: Path) -> None:
    fill(tmp_path)

    def fails(*arguments: str) -> str:
        done = run_in(tmp_path, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        return done.stderr

    assert "the screen needs a terminal" in fails(*LABEL)
    assert "is read too" in fails("label", "results.jsonl", "-o", "results.jsonl")
