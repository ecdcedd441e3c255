"""Requests that take far more memory than their bytes, for tests of a server in a container."""

from __future__ import annotations

import json

from judged.v1 import groups_pb2, metrics_pb2, scores_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.fakes.canaries import TEXT

Request = (
    pb.BatchJudgeRequest | pb.EvaluateRequest | pb.ScoreAnswersRequest | pb.ComputeMetricsRequest
)
EXACT = groups_pb2.JudgeSpec(kind="exact")


def metadata() -> Request:
    keys = {f"k{i}": f"{i % 10}" for i in range(60)}
    group = groups_pb2.QueryGroup(query=TEXT, expected=["a"], retrieved=["b"], metadata=keys)
    return pb.BatchJudgeRequest(judge=EXACT, groups=[group] * 9_000)


def short_texts() -> Request:
    texts = [f"{i:04d}" for i in range(10_000)]
    group = groups_pb2.QueryGroup(query=TEXT, expected=["0001"], retrieved=texts)
    return pb.BatchJudgeRequest(judge=EXACT, groups=[group] * 80)


def empty_groups() -> Request:
    return pb.BatchJudgeRequest(judge=EXACT, groups=[groups_pb2.QueryGroup()] * 900_000)


def ids() -> Request:
    names = [f"{i:04d}" for i in range(9_000)]
    groups = [
        groups_pb2.QueryGroup(
            query_id=f"{i}", retrieved=[""] * 9_000, document_ids=names, relevant_document_ids=["1"]
        )
        for i in range(60)
    ]
    return pb.EvaluateRequest(judge=EXACT, metrics=["mrr"], groups=groups)


def answers() -> Request:
    references = [f"r{i}" for i in range(60)]
    items = [
        scores_pb2.AnswerItem(item_id=f"{i}", query=TEXT, answer="a", references=references)
        for i in range(9_000)
    ]
    rubric = scores_pb2.RubricSpec(rubric="answer_match")
    return pb.ScoreAnswersRequest(rubrics=[rubric], items=items)


def rankings() -> Request:
    names, topics = [f"d{i}" for i in range(900)], [f"{i}" for i in range(900)]
    run = [metrics_pb2.TopicRun(query_id=t, document_ids=names, scores=[1.0] * 900) for t in topics]
    qrels = [metrics_pb2.TopicQrels(query_id=t, document_ids=["d1"], grades=[1]) for t in topics]
    trec = metrics_pb2.TrecRankings(qrels=qrels, run=run)
    return pb.ComputeMetricsRequest(metrics=["mrr"], trec=trec)


def as_json() -> bytes:
    """Return a body of short values for BatchJudge by HTTP."""
    keys = {f"k{i}": f"{i % 10}" for i in range(60)}
    group = {"query": TEXT, "expected": ["a"], "retrieved": ["b"], "metadata": keys}
    return json.dumps({"judge": {"kind": "exact"}, "groups": [group] * 4_000}).encode()


SHAPES = {
    "metadata": ("BatchJudge", metadata),
    "short texts": ("BatchJudge", short_texts),
    "empty groups": ("BatchJudge", empty_groups),
    "ids": ("Evaluate", ids),
    "answers": ("ScoreAnswers", answers),
    "rankings": ("ComputeMetrics", rankings),
}
"""The method that takes each shape, and what makes a request of it."""
