"""Runs `judged` as a process, in a folder with a good file of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

LINES = [
    {
        "id": 1,
        "query": "what is rag",
        "expected_text": "rag combines retrieval with generation for better accuracy",
        "retrieved_text": "rag is a technique that combines retrieval with generation",
    },
    {
        "id": 2,
        "query": "",
        "expected_text": "rag combines retrieval with generation for better accuracy",
        "retrieved_text": "vector databases store embeddings",
    },
]
DATASET: dict[str, Any] = {
    "queries": [
        {
            "query_id": "q1",
            "query_text": "what is rag",
            "expected_answers": ["rag combines retrieval with generation"],
        },
        {"query_id": "q2", "query_text": "who", "expected_doc_ids": ["d2", "d9"]},
    ],
    "documents": [{"doc_id": "d1", "text": "vector databases store embeddings"}],
}
RESULTS = [
    {
        "query_id": "q1",
        "results": [
            {"doc_id": "d1", "score": 2.0},
            {"doc_id": "d2", "score": 1.0, "text": "rag combines retrieval with generation"},
        ],
    },
    {"query_id": "q2", "results": [{"doc_id": "d2"}, {"doc_id": "d1"}]},
]
QRELS = "301 0 d1 1\n301 0 d2 0\n301 0 d3 2\n302 0 d1 1\n"
RUN = "301 Q0 d1 1 0.5 t\n301 Q0 d2 2 0.9 t\n301 Q0 d5 3 0.1 t\n"


def fill(folder: Path) -> Path:
    """Write the files above into a folder."""
    (folder / "contexts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in LINES))
    (folder / "dataset.json").write_text(json.dumps(DATASET))
    (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in RESULTS))
    (folder / "qrels.txt").write_text(QRELS)
    (folder / "run.txt").write_text(RUN)
    return folder


def run_in(
    folder: Path, *arguments: str, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `judged` in a folder, with no JUDGED_* variable but those given."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("JUDGED_")}
    return subprocess.run(
        [sys.executable, "-m", "judged.cli", *arguments],
        cwd=folder,
        env=clean | environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def lines_of(text: str) -> list[dict[str, Any]]:
    """Return the objects of JSON lines."""
    return [json.loads(line) for line in text.splitlines()]
