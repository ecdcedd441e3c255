"""Bad requests about money: limits that are none, and work that can't be estimated."""

from __future__ import annotations

from collections.abc import Callable

from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.integration.bad_input.case import NAN, Case
from tests.integration.bad_input.judging import batch, evaluate, group
from tests.integration.bad_input.scoring import item, rubric, score

WRONG = (NAN, float("inf"), -float("inf"), 0.0, -0.0, -1.0, 5e-324 * -1)


def limited(max_cost: float) -> Callable[[], pb.BatchJudgeRequest]:
    def request() -> pb.BatchJudgeRequest:
        given = batch()
        given.asking.max_cost = max_cost
        return given

    return request


def of_judge(request: pb.BatchJudgeRequest) -> pb.EstimateBatchRequest:
    return pb.EstimateBatchRequest(judge=request)


def of_score(request: pb.ScoreAnswersRequest) -> pb.EstimateBatchRequest:
    return pb.EstimateBatchRequest(score=request)


def estimated_limit(max_cost: float) -> Callable[[], pb.EstimateBatchRequest]:
    return lambda: of_judge(limited(max_cost)())


JUDGE, SCORE = "EstimateBatchRequest.judge", "EstimateBatchRequest.score"

CASES = [
    *(Case("asking.max_cost", limited(wrong)) for wrong in WRONG),
    Case("asking.max_cost", lambda: evaluate(asking=groups_pb2.AskingOptions(max_cost=NAN))),
    Case("work", pb.EstimateBatchRequest),
    Case("judge.groups", lambda: of_judge(pb.BatchJudgeRequest())),
    Case("judge.judge.min_score", lambda: of_judge(batch(min_score=NAN))),
    Case("judge.judge.profile", lambda: of_judge(batch(kind="exact", profile="loose"))),
    Case("", lambda: of_judge(batch(kind="nobody")), "NOT_FOUND"),
    Case("", lambda: of_judge(batch(kind="llm")), "FAILED_PRECONDITION"),
    Case("judge.groups[0].negatives", lambda: of_judge(batch(group(negatives=["n"])))),
    Case(
        "judge.groups[1].spans.expected",
        lambda: of_judge(batch(group(), group(spans=groups_pb2.GroupSpans()), kind="exact")),
    ),
    *(Case("judge.asking.max_cost", estimated_limit(wrong)) for wrong in WRONG),
    Case("score.items", lambda: of_score(pb.ScoreAnswersRequest(rubrics=[rubric()]))),
    Case("score.items[1].item_id", lambda: of_score(score(item(), item()))),
    Case("score.rubrics", lambda: of_score(score(rubrics=[]))),
    Case("", lambda: of_score(score(rubrics=[rubric("taste")])), "NOT_FOUND"),
    Case(
        'score.rubrics[0].parameters["samples"]',
        lambda: of_score(
            score(rubrics=[rubric(parameters={"samples": groups_pb2.ParameterValue(int_value=33)})])
        ),
    ),
    Case(
        "score.asking.max_cost",
        lambda: of_score(score(asking=groups_pb2.AskingOptions(max_cost=-1))),
    ),
]

CASES.append(Case("days", lambda: pb.GetUsageRequest(days=367)))

HARMLESS: dict[str, str] = {}
