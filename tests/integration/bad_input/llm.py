"""Bad requests for language models' judgements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2, verdicts_pb2

from tests.integration.bad_input.case import NAN, Case
from tests.integration.bad_input.judging import batch, evaluate, parameter


def agreement(*values: float) -> pb.ComputeMetricsRequest:
    """Verdicts on one ranking of two results, with these agreements."""
    columns = verdicts_pb2.VerdictColumns(relevant=[True, False], agreement=values)
    ranking = metrics_pb2.JudgedRanking(query_id="1", expected=1, retrieved=2)
    judged = metrics_pb2.JudgedRankings(rankings=[ranking], verdicts=columns)
    return pb.ComputeMetricsRequest(metrics=["mrr"], judged=judged)


def identified(make: Callable[..., Any], request_id: str) -> Callable[[], Any]:
    """A request to the judge llm under an id."""

    def request() -> Any:
        given = make()
        given.judge.kind = "llm"
        given.request_id = request_id
        return given

    return request


CASES = [
    Case("", lambda: batch(kind="llm"), "FAILED_PRECONDITION"),
    *(
        Case("request_id", identified(batch, wrong))
        for wrong in ("1", "0b0b9b3c-52c0-1f0a-9a44-5b3c8a7b1d11")
    ),
    Case("request_id", identified(evaluate, "1")),
    Case(
        'judge.parameters["samples"]',
        lambda: parameter("samples", "llm", int_value=33),
        field="ParameterValue.int_value",
    ),
    Case(
        'judge.parameters["temperature"]',
        lambda: parameter("temperature", "llm", double_value=NAN),
        field="ParameterValue.double_value",
    ),
    Case(
        'judge.parameters["rubric"]',
        lambda: parameter("rubric", "llm", string_value="taste"),
        field="ParameterValue.string_value",
    ),
    Case("judged.verdicts.agreement", lambda: agreement(1.0, 1.0, 1.0)),
    Case("judged.verdicts.agreement[1]", lambda: agreement(1.0, 1.1)),
    Case("judged.verdicts.agreement[0]", lambda: agreement(NAN, 1.0)),
]

HARMLESS = {
    "BatchJudgeRequest.include_details": "a switch",
    "StreamJudgeStart.include_details": "a switch",
    "StreamJudgeStart.request_id": "see test_repeats.py",
    "EvaluateRequest.include_details": "a switch",
    "VerdictColumns.details": "callers may send back what they got; it is not read",
    "VerdictColumns.probability": "callers may send back what they got; it is not read",
}
