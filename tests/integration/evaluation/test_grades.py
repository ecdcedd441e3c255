"""Grades of documents: every way from a file to a number gives those of trec_eval."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from judged import Client, InvalidArgument, MetricOptions, QueryGroup, TrecRankings
from judged.evaluation import Dataset, Evaluator, LocalJudge, Query, Results, TrecQrels, TrecRun

from tests.integration.cli_process import Commands

# Two topics with grades up to 2, one of which nothing relevant was judged.
QRELS = "1 0 d1 2\n1 0 d2 1\n1 0 d3 0\n2 0 d4 2\n2 0 d1 1\n3 0 d2 0\n"
RUN = (
    "1 Q0 d2 1 3 x\n1 Q0 d1 2 2 x\n1 Q0 d3 3 1 x\n2 Q0 d1 1 3 x\n2 Q0 d3 2 2 x\n2 Q0 d4 3 1 x\n"
    "3 Q0 d2 1 2 x\n3 Q0 d1 2 1 x\n"
)
METRICS = ["ndcg@10", "err(max_grade=2)@10", "rbp@10", "context_precision", "ap", "mrr", "bpref"]
METRICS += ["infap", "judged@2", "recall@2"]
FORMATS = ["set.json", "set.jsonl", "set.csv", "set.tsv", "set.qrels"]
NDCG = 0.5400
"""Of pytrec_eval."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "trec.qrels").write_text(QRELS)
    (tmp_path / "system.run").write_text(RUN)
    (tmp_path / "given" / "qrels").mkdir(parents=True)
    lines = ["query-id\tcorpus-id\tscore"]
    for line in QRELS.splitlines():
        topic, _, document, grade = line.split()
        lines.append(f"{topic}\t{document}\t{grade}")
    (tmp_path / "given" / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    for name, ids in (("queries", "123"), ("corpus", ["d1", "d2", "d3", "d4"])):
        written = (json.dumps({"_id": i, "text": f"text {i}"}) for i in ids)
        (tmp_path / "given" / f"{name}.jsonl").write_text("\n".join(written) + "\n")
    return tmp_path


@pytest.fixture
def expected(client: Client, folder: Path) -> dict[str, dict[str, float]]:
    """The values of queries by qrels and a run, which conformance tests hold to trec_eval."""
    trec = TrecRankings(
        TrecQrels.from_file(folder / "trec.qrels").grades,
        TrecRun.from_file(folder / "system.run").scores,
    )
    table = client.compute_metrics(METRICS, trec, MetricOptions(per_query=True))
    assert table["ndcg@10"].mean == pytest.approx(NDCG, abs=5e-5)
    return dict(table.query_values())


def values(client: Client, dataset: Dataset, folder: Path, **more) -> dict[str, dict[str, float]]:
    run = Results.from_trec_run(folder / "system.run")
    return dict(Evaluator(client).evaluate(run, dataset, METRICS, **more).table.query_values())


@pytest.mark.parametrize("to", FORMATS)
def test_grades_survive_every_format(judged: Commands, client, folder, expected, to):
    judged.fine("convert", "given", to)
    assert values(client, Dataset.load(folder / to), folder) == expected
    judged.fine("convert", to, "back.qrels")
    assert (folder / "back.qrels").read_text() == QRELS


def test_beir_of_its_folder_and_the_command_evaluate(client, folder, expected, judged: Commands):
    assert values(client, Dataset.from_beir(folder / "given"), folder) == expected
    judged.fine("convert", "given", "set.json")
    Results.from_trec_run(folder / "system.run").save(folder / "r.jsonl")
    metrics = [flag for name in METRICS for flag in ("-m", name)]
    done = judged.fine("evaluate", "set.json", "--results", "r.jsonl", *metrics, "--json", "-")
    assert json.loads(done.stdout)["per_query"] == expected
    done = judged("validate", "given", "--strict")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_judge_of_ones_own_and_a_file_to_resume_from(client, folder, expected):
    dataset = Dataset.from_beir(folder / "given")
    with pytest.raises(InvalidArgument, match="min_score: must be from 0 to 1, not 2; for grades"):
        LocalJudge(lambda context: 2, min_score=2, max_grade=3)
    judge = LocalJudge(lambda context: True, name="yes")
    assert values(client, dataset, folder, judge=judge) == expected
    kept = folder / "kept.jsonl"
    for _ in range(2):
        assert values(client, dataset, folder, resume=kept) == expected


def test_large_groups_are_cut_and_joined(client):
    """One group of many results travels in several pieces."""
    n = 3000
    ids = [f"d{i}" for i in range(n)]
    texts = ["x" * 2000] * n
    grades = {f"d{i}": i % 4 for i in range(0, n, 7)}
    group = QueryGroup("q", (), texts, "1", ids, grades=grades)
    found = client.evaluate([group], METRICS, options=MetricOptions(per_query=True))
    run = {"1": {name: float(n - i) for i, name in enumerate(ids)}}
    trec = client.compute_metrics(METRICS, TrecRankings({"1": grades}, run))
    assert [m.mean for m in found.table.metrics] == [m.mean for m in trec.metrics]


def test_queries_that_are_judged_beside_those_with_grades(client, folder, expected):
    graded = Dataset.from_beir(folder / "given")
    judged = Query("4", "what are the hours", ["open from nine to five"])
    both = Dataset([*graded.queries, judged], graded.documents)
    run = Results.from_trec_run(folder / "system.run")
    results = {**run, "4": [{"doc_id": "x", "text": "open from nine to five"}]}
    metrics = ["ndcg@10", "rbp@10", "mrr"]
    found = Evaluator(client).evaluate(results, both, metrics, judge="exact")
    by_query = dict(found.table.query_values())
    assert by_query.pop("4") == {"ndcg@10": 1.0, "rbp@10": pytest.approx(0.2), "mrr": 1.0}
    assert by_query == {q: {m: of[m] for m in metrics} for q, of in expected.items()}
    with pytest.raises(InvalidArgument, match="needs qrels or gains"):
        Evaluator(client).evaluate(results, both, ["bpref"], judge="exact")


@pytest.mark.parametrize(
    ("grades", "relevant", "problem"),
    [
        ({"d1": 0}, ["d1"], "is 0, but the document is among those that are relevant"),
        ({"d1": 1.5}, [], "must be a whole number"),
        ({"d1": True}, [], "must be a whole number"),
        ({"d1": 2**31}, [], "must be a whole number within"),
        ({"1": 1, 1: 2}, [], "twice: as text and as a number"),
    ],
)
def test_grades_that_contradict_or_are_none_are_refused(grades, relevant, problem):
    with pytest.raises(InvalidArgument, match=problem):
        Query("q", "t", relevant_document_ids=relevant, grades=grades)
