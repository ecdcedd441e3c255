"""`judged label` by table, from judged lines to corrected means, against a real server."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

from tests.integration.cli_process import Commands, run_in

ITEMS = 400
LABEL = ("label", "results.jsonl", "-o", "labels.jsonl", "-n", "120")


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


def answer(path: Path, *, wrong: int = 0) -> None:
    """Fill in a table as people would; the first `wrong` rows the other way round."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for place, row in enumerate(rows):
        said = people_say(int(row["id"].removeprefix("i"))) ^ (place < wrong)
        row["label"] = "y" if said else "n"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_labels_of_two_annotators_correct_what_the_judge_says(
    tmp_path: Path, judged: Commands
) -> None:
    truth = fill(tmp_path)

    def run(*arguments: str) -> str:
        done = judged.fine(*LABEL, *arguments)
        return done.stdout + done.stderr

    said = run("--to-csv", "table.csv")
    assert "120 of 400 items written to table.csv" in said
    assert "1 line without a verdict" in said
    answer(tmp_path / "table.csv")
    run("--from-csv", "table.csv", "--annotator", "ann")
    answer(tmp_path / "table.csv", wrong=30)
    said = run("--from-csv", "table.csv", "--annotator", "bob", "--json", "out.json")
    found = judged.read("out.json")
    assert (found["counted"], found["annotators"]) == (120, ["ann", "bob"])
    agreed = found["means"]["annotators agree"]["labels_only"]
    assert agreed["value"] == 0.75
    assert "30 of 120 items are unsure" in said
    # Where they differ nobody decides; ann alone is right about all.
    lines = (tmp_path / "labels.jsonl").read_text().splitlines()
    (tmp_path / "labels.jsonl").write_text("".join(f"{line}\n" for line in lines[:120]))
    run("--summary", "--json", "out.json")
    found = judged.read("out.json")
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

    assert "the screen needs a terminal; use --to-csv" in fails(*LABEL)
    both = fails(*LABEL, "--summary", "--to-csv", "t.csv")
    assert "--to-csv, --from-csv and --summary exclude each other" in both
    (tmp_path / "t.csv").write_text("id,label\nnone,y\n")
    assert "no judged line has the id 'none'" in fails(*LABEL, "--from-csv", "t.csv")
    assert "is the file of RESULTS.jsonl too" in fails(
        "label", "results.jsonl", "-o", "results.jsonl"
    )
