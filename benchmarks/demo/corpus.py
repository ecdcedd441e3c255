"""Loads the demo's data: passages, questions with expected answers, judgements."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the answers that a good passage would give."""

    query_id: str
    text: str
    expected_answers: list[str]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Passages by id, questions, and which passages were labelled relevant."""

    passages: dict[str, str]
    questions: list[Question]
    qrels: dict[str, dict[str, int]]


def load() -> Corpus:
    """Return the shipped data."""
    lines = (DATA / "passages.jsonl").read_text(encoding="utf-8").splitlines()
    passages = {record["doc_id"]: record["text"] for record in map(json.loads, lines)}
    dataset = json.loads((DATA / "dataset.json").read_text(encoding="utf-8"))
    questions = [
        Question(query["query_id"], query["query_text"], query["expected_answers"])
        for query in dataset["queries"]
    ]
    qrels: dict[str, dict[str, int]] = {}
    for line in (DATA / "qrels.txt").read_text(encoding="utf-8").splitlines():
        query_id, _, doc_id, grade = line.split()
        qrels.setdefault(query_id, {})[doc_id] = int(grade)
    return Corpus(passages, questions, qrels)
