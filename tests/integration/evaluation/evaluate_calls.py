"""Evaluate in one message, and what cuts StreamEvaluate small, to hold one against the other."""

from __future__ import annotations

from dataclasses import replace

import judged._batching.judging
import pytest
from judged import Client, Evaluation, Judge, MetricOptions, QueryGroup
from judged._batching import judging as chunks
from judged._codec import read_fields
from judged._convert import read_verdicts, write_group, write_judge, write_options
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub
from judged.values import NegativeMatch


def needs_model(client: Client) -> None:
    if any(judge.kind == "semantic" and judge.unavailable for judge in client.server_info().judges):
        pytest.skip("the server has no embedding model")


def unary(
    stub: JudgeServiceStub,
    groups: list[QueryGroup],
    metrics: list[str],
    judge: Judge | str,
    options: MetricOptions = MetricOptions(),  # noqa: B008 - frozen
    *,
    include_verdicts: bool = False,
) -> Evaluation:
    """Evaluate in one message."""
    request = pb.EvaluateRequest(
        groups=[write_group(group) for group in groups],
        judge=write_judge(judge),
        metrics=metrics,
        options=write_options(options, "groups"),
        include_verdicts=include_verdicts,
    )
    reply = stub.Evaluate(request, timeout=60)
    found = read_fields(Evaluation, reply, verdicts=None)
    verdicts = None
    if reply.HasField("verdicts"):
        verdicts = read_verdicts(reply.verdicts, found.judge)
    negatives = found.negatives
    if negatives is not None:
        matches = [read_fields(NegativeMatch, match) for match in reply.negatives.matches]
        negatives = replace(negatives, matches=matches)
    return replace(found, verdicts=verdicts, negatives=negatives)


def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut what is sent into many chunks, and groups into pieces, as with millions of contexts."""
    monkeypatch.setattr(judged._batching.judging, "CHUNK_CONTEXTS", 7)
    monkeypatch.setattr(chunks, "CHUNK_CHARACTERS", 60)
