"""Evret's own Evaluator and ours over the same prose: the same means, as docs/migration.md says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from judged import Client, Judge
from judged.evaluation import Dataset, Evaluator, Query

from tests.conformance.prose import build_groups
from tests.integration.server_process import running_server

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".venv" / "oracles" / "evret-0.0.3"
THEIRS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import evret
from evret.retrievers.base import BaseRetriever, RetrievalResult

found = json.loads(sys.stdin.read())

class Shelf(BaseRetriever):
    def retrieve(self, query, k):
        texts = found[query]["retrieved"]
        return [RetrievalResult(f"#{i}", -float(i), {"text": t}) for i, t in enumerate(texts)][:k]

queries = [
    evret.QueryExample(str(i), query, [], group["expected"])
    for i, (query, group) in enumerate(found.items())
]
kinds = [evret.HitRate, evret.Recall, evret.Precision, evret.MRR, evret.NDCG,
         evret.AveragePrecision]
evaluator = evret.Evaluator(Shelf(), [kind(k=4) for kind in kinds], evret.TokenOverlapJudge())
print(json.dumps(list(evaluator.evaluate(evret.EvaluationDataset(queries)).summary().values())))
"""
METRICS = ["hit_rate@4", "recall@4", "precision@4", "mrr@4", "ndcg@4", "ap@4"]


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, list[str]]]:
    """Prose by query; nothing blank, and no answer so short that an id may hold it."""
    groups = {}
    for i, group in enumerate(build_groups(20)[:300]):
        expected = list(dict.fromkeys(text.strip() for text in group.expected if len(text) > 20))
        retrieved = [text.strip() for text in group.retrieved if text.strip()]
        if expected and retrieved:
            groups[f"{i} {group.query.strip()}".strip()] = {
                "expected": expected,
                "retrieved": retrieved,
            }
    return groups


def test_the_means_are_those_of_evret(found, tmp_path, monkeypatch):
    if not FOLDER.is_dir():
        pytest.fail("evret 0.0.3 is not installed; `make setup` does it")
    command = [sys.executable, "-c", THEIRS, str(FOLDER)]
    done = subprocess.run(
        command,
        input=json.dumps(found),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "0"},
    )
    dataset = Dataset([Query(q, q, group["expected"]) for q, group in found.items()])
    with running_server() as server, Client(server.address) as client:
        ours = Evaluator(client).evaluate(
            lambda query, k: found[query]["retrieved"][:k],
            dataset,
            METRICS,
            Judge("token_overlap", "weighted"),
        )
        snippet = _snippet(server.address)
        monkeypatch.chdir(tmp_path)
        Dataset([Query("1", "q", ["rag combines texts"])]).save("dataset.json")
        names: dict[str, Any] = {"retrieve": lambda query, k: ["rag combines texts"]}
        exec(snippet, names)  # noqa: S102 - our own page
    assert [ours[name].mean for name in METRICS] == pytest.approx(json.loads(done.stdout), abs=1e-9)
    assert 0.2 < ours["recall@4"].mean < 0.95
    assert names["found"]["hit_rate@4"].mean == 1.0


def _snippet(address: str) -> str:
    page = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", page, re.DOTALL)[1]
    return code.replace("127.0.0.1:8470", address)
