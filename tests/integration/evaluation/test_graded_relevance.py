"""Grades of a language model as gains: Evaluate, the Evaluator, traces and the command."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from judged import (
    Client,
    HumanLabels,
    InvalidArgument,
    Judge,
    JudgedRanking,
    JudgedRankings,
    Matching,
    MetricOptions,
    QueryGroup,
    Status,
)
from judged.evaluation import Dataset, Evaluator, Query

from tests.fakes.providers.scripted_provider import Asked, Failure, Said, ScriptedProvider
from tests.integration.cli_process import Commands

LLM_MODELS = {"m": ""}
LLM_FLAGS = ("--llm-cache", "off")
_RETRIEVED = re.compile(r'name="retrieved_text">\n"(.*)"\n<')
JUDGE = Judge("llm", parameters={"rubric": "graded_relevance"})


def script(asked: Asked) -> Said:
    """Give the grade that the retrieved text begins with."""
    assert "expected_text" not in asked.user
    [text] = _RETRIEVED.findall(asked.user)
    return Failure(400) if text == "failing" else {"reasoning": "read", "grade": text[0]}


def ndcg(gains: list[int], ideal: list[int]) -> float:
    def dcg(grades: list[int]) -> float:
        return sum(grade / math.log2(rank + 2) for rank, grade in enumerate(grades))

    return dcg(gains) / dcg(sorted(ideal, reverse=True))


def test_grades_are_the_gains_of_ndcg(client: Client, provider: ScriptedProvider):
    groups = [
        QueryGroup("one", ["a", "b"], ["1 a", "3 b", "0 c"], "1"),
        QueryGroup("two", ["a"], ["2 x", "3 y"], "2"),
        QueryGroup("three", ["a"], ["1 x"], "3"),
    ]
    before = len(provider.asked)
    done = client.evaluate(
        groups, ["ndcg@3", "precision@2"], JUDGE, MetricOptions(per_query=True),
        include_verdicts=True,
    )  # fmt: skip
    # The expected text is not shown, so that each result is asked about once.
    assert len(provider.asked) - before == 6
    assert done.judge.max_grade == 3
    assert done.verdicts is not None
    assert [verdict.grade for verdict in done.verdicts] == [1, 1, 3, 3, 0, 0, 2, 3, 1]
    # One of two expected texts is not found, and the one of the third query.
    assert done.table["ndcg@3"].per_query == pytest.approx(
        [ndcg([1, 3, 0], [1, 3, 3]), ndcg([2, 3], [2, 3]), ndcg([1], [1, 3])]
    )
    assert done.table["precision@2"].per_query == [0.5, 0.5, 0.0]
    assert "grades:0-3" in done.table["ndcg@3"].signature


def test_a_failed_grade_leaves_its_query_out_and_bounds_hold_it(client: Client):
    groups = [
        QueryGroup("one", ["a"], ["2 x", "failing"], "1"),
        QueryGroup("two", ["a"], ["1 x", "2 y"], "2"),
    ]
    done = client.evaluate(groups, ["ndcg@3"], JUDGE, include_verdicts=True)
    metric = done.table["ndcg@3"]
    sure = ndcg([1, 2], [1, 2])
    assert metric.n == 1
    assert metric.mean == pytest.approx(sure)
    assert metric.lower_bound <= (sure + ndcg([2, 3], [2, 3])) / 2 <= metric.upper_bound
    assert [verdict.grade for verdict in done.verdicts][:2] == [2, None]
    assert done.verdicts[1].status is Status.ERROR


def test_a_result_is_graded_without_an_expected_text(client: Client):
    groups = [
        QueryGroup("one", (), ["1 a", "3 b", "0 c"], "1"),
        QueryGroup("two", (), ["1 x"], "2"),
        QueryGroup("three", ["a"], ["2 x", "3 y"], "3"),
    ]
    verdicts = client.judge(groups, JUDGE)
    assert [verdict.grade for verdict in verdicts] == [1, 3, 0, 1, 2, 3]
    assert list(verdicts.offsets) == [0, 3, 4, 6]
    assert [row["rank"] for row in verdicts.to_rows()] == [1, 2, 3, 1, 1, 2]
    [chunk] = client.judge_stream([groups], JUDGE)
    assert chunk.verdicts.score == verdicts.score
    assert client.estimate(groups, JUDGE).contexts == 6
    metrics = ["ndcg@3", "precision@2", "mrr", "hit_rate"]
    done = client.evaluate(
        groups, metrics, JUDGE, MetricOptions(per_query=True), include_verdicts=True
    )
    assert done.verdicts.score == verdicts.score
    # The best order is that of the results that were graded: nothing else is known to be there.
    assert done.table["ndcg@3"].per_query == pytest.approx(
        [ndcg([1, 3, 0], [1, 3, 0]), 1.0, ndcg([2, 3], [2, 3])]
    )
    assert done.table["precision@2"].per_query == [0.5, 0.0, 0.5]
    assert done.table["mrr"].per_query == [0.5, 0.0, 1.0]
    assert done.table.counts.evaluated == 3


def test_every_relevant_result_is_a_hit_where_no_text_was_expected(client: Client):
    group = QueryGroup("one", (), ["3 a", "2 b", "0 c", "3 d"], "1")
    for matching in Matching:
        modes = MetricOptions(matching=matching)
        done = client.evaluate([group], ["precision@4", "mrr"], JUDGE, modes)
        assert done.table["precision@4"].mean == 0.75, matching


def test_what_rests_on_all_there_is_to_find_is_refused(client: Client):
    group = QueryGroup("one", (), ["3 a"], "1")
    for name in ("recall@5", "f1", "ap", "r_precision", "hybrid_log_rank"):
        with pytest.raises(InvalidArgument, match="needs to know how much there is to find"):
            client.evaluate([group], ["ndcg@3", name], JUDGE)
    with pytest.raises(InvalidArgument, match="needs to know how much there is to find"):
        client.compute_metrics(
            ["recall"], JudgedRankings([JudgedRanking("1", 1, 2, open_ended=True)], [True, False])
        )


def test_human_labels_are_yes_or_no_and_correct_no_grades(client: Client):
    rankings = JudgedRankings(
        [JudgedRanking("1", 1, 1)],
        [True],
        score=[1.0],
        max_grade=3,
        human_labels=HumanLabels(["1"], [True]),
    )
    with pytest.raises(InvalidArgument, match="can't correct grades"):
        client.compute_metrics(["ndcg"], rankings)


def test_a_failed_grade_without_an_expected_text_is_between_the_bounds(client: Client):
    done = client.evaluate(
        [QueryGroup("one", (), ["2 x", "failing"], "1"), QueryGroup("two", (), ["3 x"], "2")],
        ["ndcg@2", "precision@2"],
        JUDGE,
    )
    for name, values in (
        ("ndcg@2", [ndcg([2, grade], [2, grade]) for grade in range(4)]),
        ("precision@2", [0.5, 1.0]),
    ):
        metric = done.table[name]
        assert metric.n == 1
        other = 1.0 if name == "ndcg@2" else 0.5
        assert metric.lower_bound <= (min(values) + other) / 2
        assert metric.upper_bound >= (max(values) + other) / 2


def test_going_on_and_replaying_give_the_same_numbers(
    client: Client, judged: Commands, provider: ScriptedProvider, tmp_path: Path
):
    dataset = Dataset([Query(str(n), f"query {n}", ["a"]) for n in range(3)])
    results = {str(n): [f"{(n + rank) % 4} text" for rank in range(3)] for n in range(3)}
    metrics = ["ndcg@3", "rbp"]
    whole = Evaluator(client).evaluate(results, dataset, metrics, judge=JUDGE)
    for _ in range(2):
        resumed = Evaluator(client).evaluate(
            results, dataset, metrics, judge=JUDGE, resume=tmp_path / "run.resume"
        )
        assert resumed.table["ndcg@3"].per_query == whole.table["ndcg@3"].per_query
        assert resumed.table["rbp"].signature == whole.table["rbp"].signature
    dataset.save(tmp_path / "dataset.json")
    lines = [
        json.dumps({"query_id": q, "results": [{"text": text} for text in found]})
        for q, found in results.items()
    ]
    (tmp_path / "results.jsonl").write_text("\n".join(lines))
    command = [
        "evaluate", "dataset.json", "--results", "results.jsonl", "-m", "ndcg@3",
        "--trace", "kept.jsonl", "--json", "-",
    ]  # fmt: skip
    asked = judged(*command, "--judge", "llm", "--param", "rubric=graded_relevance")
    before = len(provider.asked)
    replayed = judged(*command, "--judge", "none")
    assert len(provider.asked) == before
    [mean] = {json.loads(done.stdout)["metrics"]["ndcg@3"]["mean"] for done in (asked, replayed)}
    assert mean == pytest.approx(whole.table["ndcg@3"].mean)


class TestCommand:
    LINES = (
        {"query_id": "7", "doc_id": "a", "query": "q", "retrieved_text": "3 a"},
        {"query_id": "7", "doc_id": "b", "query": "q", "retrieved_text": "failing"},
        {"query_id": "8", "doc_id": "a", "query": "r", "retrieved_text": "1 c"},
    )

    @pytest.fixture(autouse=True)
    def pool(self, judged: Commands) -> None:
        judged.write("pool.jsonl", self.LINES)

    def test_a_pool_without_expected_texts_becomes_a_judgment_list(
        self, tmp_path: Path, judged: Commands
    ):
        graded = ("--judge", "llm", "--param", "rubric=graded_relevance")
        done = judged("judge", "pool.jsonl", *graded, "--output", "pool.qrels")
        assert (tmp_path / "pool.qrels").read_text() == "7 0 a 3\n8 0 a 1\n"
        assert "1 line without a verdict left out of pool.qrels" in done.stderr
        (tmp_path / "x.run").write_text("7 Q0 b 1 2 x\n7 Q0 a 2 1 x\n8 Q0 a 1 1 x\n")
        found = judged("metrics", "--qrels", "pool.qrels", "--run", "x.run", "-m", "ndcg@10")
        assert "0.8155" in found.stdout, found.stderr
        for output in ("-", "judged.jsonl"):
            done = judged("judge", "pool.jsonl", *graded, "--output", output)
            text = done.stdout if output == "-" else (tmp_path / output).read_text()
            assert [json.loads(line)["score"] for line in text.splitlines()][::2] == [1, 1 / 3]

    @pytest.mark.parametrize("output", ["-", "judged.jsonl"])
    def test_a_judge_that_compares_asks_for_the_expected_text(self, judged: Commands, output: str):
        for judge in ("exact", "llm"):
            assert judged.refused(
                "judge", "pool.jsonl", "--judge", judge, "--output", output
            ).startswith("judged: pool.jsonl:1: has no 'expected_text'")

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"doc_id": None}, "pool.jsonl:3: has no 'doc_id' without white space"),
            ({"query_id": "a b"}, "pool.jsonl:3: has no 'query_id' without white space"),
            ({"query_id": "7"}, "pool.jsonl:3: judges 'a' for query '7' again, as line 1 does"),
        ],
    )
    def test_a_judgment_list_needs_ids(
        self, judged: Commands, change: dict[str, object], said: str
    ):
        judged.write("pool.jsonl", (*self.LINES[:2], {**self.LINES[2], **change}))
        assert judged.refused("judge", "pool.jsonl", "--output", "pool.qrels").startswith(
            f"judged: {said}"
        )
