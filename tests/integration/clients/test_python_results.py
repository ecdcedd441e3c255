"""What Python writes, the command reads; rows of results from a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from judged import Client, MetricOptions, QueryGroup
from judged.evaluation import Evaluator

from tests.integration.cli_process import Commands

pd = pytest.importorskip("pandas")

QRELS = {str(t): {"a": 1, "b": 0} for t in range(20)}
WORSE = {str(t): ["b", "a"] if t % 2 else ["a", "b"] for t in range(20)}
BETTER = {str(t): ["a", "b"] for t in range(20)}
VALUES = MetricOptions(per_query=True)


def test_the_command_compares_evaluations_and_takes_them_as_a_baseline(
    client: Client, judged: Commands, tmp_path: Path
):
    groups = [QueryGroup("q", ["a b"], ["x", "a b"], str(n), ["1", "2"]) for n in range(3)]
    found = Evaluator(client).evaluate_groups(groups, ["mrr"], "exact", VALUES)
    (tmp_path / "one.json").write_text(json.dumps(found.to_dict()))
    again = client.evaluate(groups, ["mrr"], "exact", VALUES)
    (tmp_path / "two.json").write_text(json.dumps(again.to_dict()))
    judged.fine("compare", "one.json", "two.json")
    bare = client.evaluate(groups, ["mrr"], "exact")
    (tmp_path / "bare.json").write_text(json.dumps(bare.to_dict()))
    assert "MetricOptions(per_query=True)" in judged.refused("compare", "one.json", "bare.json")


def test_rows_of_every_call_that_judges_name_query_and_rank(client: Client):
    groups = [QueryGroup("q", ["a b"], ["x", "a b"], n, [7, 8]) for n in range(2)]
    wanted = [("0", 1, "7", False), ("0", 2, "8", True), ("1", 1, "7", False), ("1", 2, "8", True)]

    def rows(verdicts):
        frame = pd.DataFrame(verdicts.to_rows())
        return list(
            zip(*(frame[c] for c in ("query_id", "rank", "document_id", "relevant")), strict=True)
        )

    assert rows(client.judge(groups, "exact")) == wanted
    assert rows(client.evaluate(groups, ["mrr"], "exact", include_verdicts=True).verdicts) == wanted
    assert rows(Evaluator(client).evaluate_groups(groups, ["mrr"], "exact").verdicts) == wanted
    (chunk,) = client.judge_stream([iter(groups)], "exact")
    assert rows(chunk.verdicts) == wanted
