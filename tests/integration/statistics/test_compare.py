"""CompareRuns through both clients, and `judged compare` and the gates as a process."""

from __future__ import annotations

import json
import random
import re
import shlex
from pathlib import Path

import pytest
from judged import (
    Client,
    DocumentRankings,
    JudgedRanking,
    JudgedRankings,
    MetricOptions,
    TrecRankings,
)

from tests.integration.cli_process import Commands

TOPICS = [str(topic) for topic in range(1, 31)]
CHANCE = random.Random(4)
QRELS = {t: {f"d{i}": int(CHANCE.random() < 0.3) for i in range(20)} | {"d99": 1} for t in TOPICS}


def ranked(skill: float, seed: int) -> dict[str, dict[str, float]]:
    chance = random.Random(seed)
    return {
        t: {d: round(chance.random() + skill * grade, 6) for d, grade in QRELS[t].items()}
        for t in TOPICS
    }


RUNS = {"bm25": ranked(0.0, 1), "dense": ranked(0.4, 2), "hybrid": ranked(0.5, 3)}
DOCUMENTS = {name: DocumentRankings(topics) for name, topics in RUNS.items()}
METRICS = ["ndcg@10", "hit_rate@1"]


class TestKindsOfRelevance:
    def test_documents_are_measured_as_compute_metrics_does(self, client: Client):
        found = client.compare_runs(METRICS, DOCUMENTS, qrels=QRELS)
        for name, topics in RUNS.items():
            alone = client.compute_metrics(METRICS, TrecRankings(QRELS, topics))
            assert found.tables[name] == alone
        made = found.between("ndcg@10", "dense")
        assert (made.n, made.baseline) == (30, "bm25")
        assert made.difference.value == pytest.approx(made.run_mean - made.baseline_mean)
        assert made.difference.interval.lower <= made.difference.value
        assert made.permutation.p_value < 0.01
        assert made.mcnemar is None
        assert found.between("hit_rate@1", "dense").mcnemar is not None
        assert len(found.comparisons) == 4
        assert found.signature == "permutations:100000|seed:0|v1"

    def test_a_metric_may_be_told_with_its_defaults(self, client: Client):
        found = client.compare_runs(["rbp(p=0.8)@2", "rbp(p=0.5)@2"], DOCUMENTS, qrels=QRELS)
        assert found.between("rbp@2", "dense").metric == "rbp@2"
        assert found.between("rbp(p=0.8)@2", "dense") == found.between("rbp@2", "dense")
        with pytest.raises(KeyError, match="compared were rbp@2 of dense"):
            found.between("rbp(p=0.7)@2", "dense")

    def test_values_of_earlier_calls_give_the_same(self, client: Client):
        tables = {
            name: client.compute_metrics(
                METRICS, TrecRankings(QRELS, topics), MetricOptions(per_query=True)
            )
            for name, topics in RUNS.items()
        }
        values = {name: table.per_query_values() for name, table in tables.items()}
        found = client.compare_runs(METRICS, values)
        direct = client.compare_runs(METRICS, DOCUMENTS, qrels=QRELS)
        assert found.comparisons == direct.comparisons

    def test_verdicts_leave_out_what_is_unsettled(self, client: Client):
        shape = [JudgedRanking(str(q), 1, 1) for q in range(4)]
        runs = {
            "a": JudgedRankings(shape, [True, False, False, True]),
            "b": JudgedRankings(shape, [True, True, False, False], [1, 1, 1, 2]),
        }
        made = client.compare_runs(["precision@1"], runs).comparisons[0]
        assert made.n == 3
        assert any("1 query left out" in warning for warning in made.warnings)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    qrels = [f"{t} 0 {d} {g}" for t, judged in QRELS.items() for d, g in judged.items()]
    (tmp_path / "qrels.txt").write_text("\n".join(qrels))
    for name, topics in RUNS.items():
        lines = [f"{t} Q0 {d} 0 {s} x" for t, found in topics.items() for d, s in found.items()]
        (tmp_path / f"{name}.run").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def judged(folder: Path, server_address: str) -> Commands:
    return Commands(folder, server_address)


class TestCommand:
    def test_compares_trec_runs(self, judged, folder):
        done = judged(
            *shlex.split(
                "compare bm25.run dense.run hybrid.run --qrels qrels.txt -m ndcg@10 --json out.json"
            ),
        )
        assert (done.returncode, done.stderr.count("\n")) == (0, 2), done.stderr
        assert "warning: dense, interval: 30 queries are few" in done.stderr
        head, _, first = (re.split(" {2,}", line) for line in done.stdout.splitlines()[:3])
        row = dict(zip(head, first, strict=True))
        assert (row["metric"], row["run"], row["n"]) == ("ndcg@10", "dense", "30")
        assert row["the run is"] == "better"
        written = judged.read("out.json")
        assert written["baseline"] == "bm25"
        assert [made["run"] for made in written["comparisons"]] == ["dense", "hybrid"]
        assert len(written["comparisons"][0]["moved"]) == 10

    def test_documents_give_the_same_as_the_runs(self, judged):
        for name in RUNS:
            measured = ("metrics", "--qrels", "qrels.txt", "--run", f"{name}.run")
            done = judged(*measured, "-m", "ndcg@10", "--json", f"{name}.json")
            assert done.returncode == 0
        files = [f"{name}.json" for name in RUNS]
        by_documents = judged("compare", *files, "--json", "-")
        runs = [f"{name}.run" for name in RUNS]
        by_runs = judged("compare", *runs, "--qrels", "qrels.txt", "-m", "ndcg@10", "--json", "-")
        ours, theirs = json.loads(by_documents.stdout), json.loads(by_runs.stdout)
        assert ours["comparisons"] == theirs["comparisons"]
        assert ours["runs"]["bm25"]["file"] == "bm25.json"

    def test_another_way_of_measuring_is_refused_unless_allowed(self, judged):
        for name, flags in (("bm25", []), ("dense", ["--complete"])):
            measured = ("metrics", "--qrels", "qrels.txt", "--run", f"{name}.run")
            assert judged(*measured, "-m", "ap", *flags, "--json", f"{name}.json").returncode == 0
        assert "complete:true" in judged.refused("compare", "bm25.json", "dense.json")
        done = judged("compare", "bm25.json", "dense.json", "--allow-other-signature")
        assert done.returncode == 0
        assert "complete:true" in done.stderr
