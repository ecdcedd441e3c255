"""Metrics, and their bounds, where verdicts are missing: the same however StreamEvaluate is cut."""

from __future__ import annotations

import pytest
from judged import Client, IntervalOptions, Judge, MetricOptions, QueryGroup
from judged.evaluation import Evaluator
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.integration.evaluation.evaluate_calls import needs_model, small_chunks, unary

TOO_LONG = "words and more words " * 200


@pytest.mark.parametrize("cut", [False, True])
def test_slices_have_bounds_where_verdicts_miss(
    client: Client, stub: JudgeServiceStub, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    needs_model(client)
    if cut:
        small_chunks(monkeypatch)
    texts = {
        "settled": (["a vector store", TOO_LONG], "x"),
        "open": ([TOO_LONG, "a vector store"], "x"),
        "alone": ([TOO_LONG, "a vector store"], "y"),
        "whole": (["the vector store"], "z"),
        "other": (["something else"], "z"),
    }
    groups = [
        QueryGroup("q", ["vector store"], found, name, metadata={"part": part})
        for name, (found, part) in texts.items()
    ]
    groups.append(QueryGroup("q", [], ["x"], "nothing", metadata={"part": "no gold"}))
    judge = Judge("semantic", parameters={"long_text": "reject"})
    options = MetricOptions(interval=IntervalOptions(resamples=100), slice_by=["part", "absent"])
    ours = Evaluator(client).evaluate_groups(groups, ["mrr", "recall@1"], judge, options).table
    theirs = unary(stub, groups, ["mrr", "recall@1"], judge, options).table
    assert [(part.key, part.value) for part in theirs.slices] == [
        ("part", "x"),
        ("part", "y"),
        ("part", "z"),
        ("absent", ""),
    ]
    alone, whole = theirs.slices[1]["mrr"], theirs.slices[2]["mrr"]
    assert (alone.mean, alone.n, alone.interval) == (None, 0, None)
    assert 0 < alone.lower_bound < alone.upper_bound == 1
    assert whole.lower_bound == whole.mean == whole.upper_bound
    assert whole.interval is not None
    assert ours == theirs
