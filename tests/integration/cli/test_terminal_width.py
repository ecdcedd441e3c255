"""What commands print on a terminal of 80 columns: no table is wider."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli_process import DATASET, LINES, fill, run_in

METRICS = ["ndcg@10", "ap", "mrr", "recall@5", "precision@5", "f1@5", "hit_rate@5", "rbp"]
ASKED = [part for metric in METRICS for part in ("-m", metric)]
TREC = ["--qrels", "qrels.txt"]
RUNS = ["a-run-with-quite-a-long-name.run", "another-run-with-quite-a-long-name.run", "third.run"]
INTERVAL = ["--interval", "percentile", "--resamples", "1000"]
COMMANDS = {
    "metrics": ["--run", "run.txt", *TREC, *ASKED, *INTERVAL, "--per-query"],
    "compare": [*RUNS, *TREC, *ASKED, "--moved", "2", "--difference", "0.1"],
    "evaluate": [
        *("topics.json", "--results", "results.jsonl", "--judge", "token_overlap"),
        *("-m", "recall@5", "-m", "mrr", "-m", "ndcg@5", "-m", "precision@5", "--per-query"),
        *INTERVAL,
        *("--slice-by", "topic"),
    ],
    "calibrate": ["labelled.jsonl", "--judge", "token_overlap"],
    "agree": ["ratings.jsonl", *INTERVAL],
    "texts": [
        *("answers.jsonl", "-m", "bleu", "-m", "token_f1", "-m", "exact_match"),
        *INTERVAL,
        "--per-query",
    ],
    "judges": [],
    "doctor": [],
    "demo": [],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path)
    qrels = [f"{topic} 0 d{topic % 3} 1" for topic in range(20)]
    (tmp_path / "qrels.txt").write_text("\n".join(qrels) + "\n")
    for shift, name in enumerate(["run.txt", *RUNS]):
        lines = [
            f"{topic} Q0 d{(rank + topic * shift) % 5} {rank} {9 - rank} t"
            for topic in range(20)
            for rank in range(5)
        ]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    topics = [{**query, "metadata": {"topic": "t" * 60}} for query in DATASET["queries"]]
    (tmp_path / "topics.json").write_text(json.dumps({**DATASET, "queries": topics}))
    labelled = [
        {**LINES[i % 2], "id": i, "query_id": i, "relevant": i % 3 != 0 if i % 2 else True}
        for i in range(60)
    ]
    _write(tmp_path / "labelled.jsonl", labelled)
    raters = [("excellent answer", "merely acceptable"), ("merely acceptable", "useless answer")]
    ratings = [
        {"item_id": i, "ratings": dict(zip(("ann-of-the-first-team", "bob"), pair, strict=True))}
        for i, pair in enumerate([*raters, ("useless answer", "excellent answer")] * 20)
    ]
    _write(tmp_path / "ratings.jsonl", ratings)
    answers = [
        {
            "item_id": "answer-" * 20 + str(i),
            "query": "q",
            "answer": "Paris",
            "references": ["Rome"],
        }
        for i in range(4)
    ]
    _write(tmp_path / "answers.jsonl", answers)
    return tmp_path


def _write(path: Path, rows: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def table_lines(printed: str) -> Iterator[str]:
    """Yield the lines of tables: from the one above a rule to the next blank one."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", printed).splitlines()
    inside = False
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        inside = bool(line.strip()) and (inside or after.startswith("──"))
        if inside:
            yield line


@pytest.mark.parametrize("command", COMMANDS)
def test_tables_fit_80_columns(command: str, folder: Path, server_address: str):
    terminal = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "80"}
    where = {"JUDGED_TARGET": server_address}
    done = run_in(folder, command, *COMMANDS[command], **where, **terminal)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = list(table_lines(done.stdout))
    assert len(lines) > 2, done.stdout
    assert [line for line in lines if len(line) > 80] == []
