"""Ids of documents that never meet: every join by id asks, and none answers 0 in silence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from judged import (
    Client,
    IntervalOptions,
    MetricOptions,
    TrecRankings,
)
from judged.evaluation import Dataset, EvaluationResult, Evaluator, LocalJudge, Query, Retrieved

from tests.integration.cli_process import Commands

PATHS = "which differ in a path before the name; are they ids of the same kind"
ASKED = f"{PATHS}, and the results of these queries?"
QUERIES = [Query(f"q{i}", f"t{i}", relevant_document_ids=[f"doc{i}.md"]) for i in range(3)]
RESULTS = {f"q{i}": [Retrieved(f"/data/docs/doc{j}.md") for j in (i, i + 1)] for i in range(3)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Dataset(QUERIES).save(tmp_path / "dataset.json")
    lines = (
        {"query_id": q, "results": [{"doc_id": found.doc_id} for found in ranked]}
        for q, ranked in RESULTS.items()
    )
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "t.qrels").write_text("".join(f"q{i} 0 doc{i} 1\n" for i in range(3)))
    run = (f"q{i} Q0 doc{i + j}.txt {j + 1} {8 - j} x\n" for i in range(3) for j in range(2))
    (tmp_path / "t.run").write_text("".join(run))
    return tmp_path


class TestCommands:
    def test_evaluate(self, folder, judged: Commands):
        command = ["evaluate", "dataset.json", "--results", "results.jsonl", "-m", "recall@2"]
        done = judged(*command, "--strict", "--json", "-")
        assert done.returncode == 1
        said = (
            "none of the 6 document ids that were retrieved is among the 3 that are expected, for "
            f"example '/data/docs/doc0.md' and 'doc0.md', {ASKED}"
        )
        assert f"judged: warning: {said}\n" in done.stderr
        document = json.loads(done.stdout)
        assert document["warnings"] == [said]
        (folder / "r.json").write_text(done.stdout)
        assert list(EvaluationResult.from_json(folder / "r.json").warnings) == [said]
        done = judged("report", "r.json", "-o", "-")
        assert "ids of the same kind" in done.stdout
        judged.fine(*command)

    def test_metrics_and_compare(self, folder, judged: Commands):
        command = ["metrics", "--qrels", "t.qrels", "--run", "t.run", "-m", "ndcg@10"]
        done = judged(*command, "--strict", "--json", "-")
        assert done.returncode == 1
        assert "'doc0.txt' and 'doc0', which differ in a file's ending" in done.stderr
        assert "file's ending" in json.loads(done.stdout)["warnings"][0]
        (folder / "good.run").write_text((folder / "t.run").read_text().replace(".txt", ""))
        command = ["compare", "--qrels", "t.qrels", "good.run", "t.run", "-m", "ndcg@10"]
        done = judged(*command, "--strict")
        assert done.returncode == 1
        assert "judged: warning: t: none of the 6 document ids" in done.stderr
        assert "warning: good: none" not in done.stderr


class TestEvaluator:
    @pytest.mark.parametrize("how", ["at once", "resumed", "judged here", "a retriever"])
    def test_every_way_has_the_warning(self, client, tmp_path, how):
        source, more = RESULTS, {}
        if how == "resumed":
            more = {"resume": tmp_path / "kept.jsonl"}
        elif how == "judged here":
            more = {"judge": LocalJudge(lambda context: True, name="yes")}
        elif how == "a retriever":
            by_text = {query.text: RESULTS[query.query_id] for query in QUERIES}
            source = lambda query, k: by_text[query][:k]  # noqa: E731
        found = Evaluator(client).evaluate(source, Dataset(QUERIES), ["recall@2"], **more)
        assert [PATHS in said for said in found.table.warnings] == [True]
        assert found.table.warnings[0] in found.warnings
        assert found.table.id_fit.expected == 3
        assert "warning: none of the 6 document ids" in found.summary()

    def test_ids_that_fit_have_none(self, client):
        results = {q.query_id: [Retrieved(q.relevant_document_ids[0])] for q in QUERIES}
        found = Evaluator(client).evaluate(results, Dataset(QUERIES), ["recall@2"])
        assert (found.table.warnings, found.table.id_fit.found) == ([], 3)
        judged = Dataset([Query("q0", "t0", ["a text"])])
        found = Evaluator(client).evaluate({"q0": ["a text"]}, judged, ["mrr"], judge="exact")
        assert (found.table.warnings, found.table.id_fit) == ([], None)

    def test_the_plugin_for_pytest_fails_the_test(self, folder, server_address):
        (folder / "test_it.py").write_text(
            "def test_retrieval(judged_evaluate):\n"
            "    judged_evaluate('results.jsonl', 'dataset.json', ['recall@2'])\n"
        )
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
        done = subprocess.run(
            [*command, "--judged-target", server_address],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 1, done.stdout
        assert "are they ids of the same kind" in done.stdout


class TestCalls:
    def test_a_run_of_several_messages_is_told_of_as_one(self, client: Client):
        def name(i: int, ending: str = "") -> str:
            return f"{'x' * 400}{i}{ending}"

        qrels = {f"q{i}": {name(i): 1} for i in range(40)}
        run = {f"q{i}": [name(i + j, ".txt") for j in range(200)] for i in range(40)}
        for options in (MetricOptions(), MetricOptions(interval=IntervalOptions())):
            table = client.compute_metrics(["mrr"], TrecRankings(qrels, run), options)
            assert table.counts.evaluated == 40
            (said,) = table.warnings
            assert said.startswith("none of the 8000 document ids that were retrieved is among the")
            assert (table["mrr"].mean, table.id_fit.expected) == (0.0, 40)
        run |= {f"q{i}": [name(i), *run[f"q{i}"][1:]] for i in range(10, 40)}
        table = client.compute_metrics(["mrr"], TrecRankings(qrels, run))
        assert table.warnings[0].startswith(
            "10 of 10 expected document ids that were not retrieved"
        )
        assert table["mrr"].mean == 0.75
        run |= {f"q{i}": [name(i), *run[f"q{i}"][1:]] for i in range(10)}
        assert not client.compute_metrics(["mrr"], TrecRankings(qrels, run)).warnings
