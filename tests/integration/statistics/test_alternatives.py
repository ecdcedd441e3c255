"""Lines with several expected texts, against what people decided on the same items."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.integration.cli_process import Commands, lines_of

ITEMS = Path(__file__).parents[2] / "data" / "nq301" / "items.jsonl"
PUBLISHED = Path(__file__).parents[3] / "benchmarks" / "equivalence" / "data" / "nq301_human.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    items = [json.loads(line) for line in ITEMS.read_text().splitlines()]
    lines = [
        {
            "query": item["query"],
            "expected_text": item["expected"][0],
            "expected_alternatives": item["expected"],
            "retrieved_text": item["retrieved"],
            "label": item["human"],
        }
        for item in items
    ]
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    queries = [
        {
            "query_id": str(n),
            "query_text": line["query"],
            "expected_text": line["expected_text"],
            "expected_alternatives": line["expected_alternatives"],
        }
        for n, line in enumerate(lines)
    ]
    results = [
        {"query_id": str(n), "results": [{"text": line["retrieved_text"]}]}
        for n, line in enumerate(lines)
    ]
    (tmp_path / "dataset.json").write_text(json.dumps({"queries": queries}))
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in results))
    return tmp_path


def test_all_commands_read_them_as_alternatives(folder: Path, judged: Commands):
    """By the first alternative alone 213 of the 293 items are judged as people did, not 239."""
    judged.fine("judge", "lines.jsonl", "--json", "judged.json", "--output", "o")
    lines = lines_of((folder / "o").read_text())
    assert len(lines) == 293
    assert sum(line["relevant"] == line["label"] for line in lines) == 239
    relevant = sum(line["relevant"] for line in lines)
    assert judged.read("judged.json")["counts"]["relevant"] == relevant
    quality = judged.document("calibrate", "lines.jsonl", "--label-field", "label")["quality"]
    assert quality["true_positives"] + quality["true_negatives"] == 239
    metric = judged.document(
        *shlex.split("evaluate dataset.json --results results.jsonl --metric hit_rate@1")
    )["metrics"]["hit_rate@1"]
    assert metric["mean"] == pytest.approx(relevant / 293)


def test_the_judge_that_sees_all_of_them_gives_a_line_one_score(tmp_path: Path, judged: Commands):
    """The file is read as it is published; a verdict brings its probability, a replay too."""
    asked = ("judge", str(PUBLISHED), "--judge", "answer_equivalence")
    judged.fine(*asked, "--trace", "t.jsonl", "--output", "o")
    lines = lines_of((tmp_path / "o").read_text())
    assert len(lines) == 293
    assert sum(line["relevant"] == line["label"] for line in lines) >= 0.82 * 293
    for line in lines:
        assert line["relevant"] == (line["score"] >= 0.5)
        assert 0 < line["probability"] < 1
    judged.fine(
        "judge", str(PUBLISHED), "--judge", "none", "--trace", "t.jsonl", "--output", "again"
    )
    again = lines_of((tmp_path / "again").read_text())
    for line in (*lines, *again):
        line.pop("source")
    assert again == lines
    assert (
        judged.document(
            "calibrate",
            str(PUBLISHED),
            "--judge",
            "answer_equivalence",
            "--label-field",
            "label",
        )["quality"]["n"]
        == 293
    )


def test_lines_of_one_answer_do_not_share_their_expected_texts(tmp_path: Path, judged: Commands):
    """Two lines of the same query and answer stand together, but expect different texts."""
    lines = [
        {"query": "capital of france", "expected_text": expected, "retrieved_text": "Lyon"}
        for expected in ("Paris", "Lyon")
    ]
    judged.write("lines.jsonl", lines)
    done = judged("judge", "lines.jsonl", "--judge", "answer_equivalence")
    assert [line["relevant"] for line in lines_of(done.stdout)] == [False, True]
