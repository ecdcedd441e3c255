"""Requests to ScoreAnswers, and what became of them."""

from __future__ import annotations

from judged._convert import read_reason
from judged.v1 import groups_pb2, scores_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub


def item(item_id: str = "1", **texts: object) -> scores_pb2.AnswerItem:
    given = {"query": "q", "answer": "an answer", "references": ["r"], "contexts": ["c"]}
    return scores_pb2.AnswerItem(**{"item_id": item_id, **given, **texts})


def spec(
    rubric: str, min_score: float | None = None, **parameters: object
) -> scores_pb2.RubricSpec:
    weights = parameters.pop("weights", {})
    kinds = {int: "int_value", float: "double_value", str: "string_value"}
    values = {n: groups_pb2.ParameterValue(**{kinds[type(v)]: v}) for n, v in parameters.items()}
    return scores_pb2.RubricSpec(
        rubric=rubric, min_score=min_score, parameters=values, weights=weights
    )


def request(
    items: list[scores_pb2.AnswerItem], *rubrics: scores_pb2.RubricSpec, **options: object
) -> pb.ScoreAnswersRequest:
    # Refreshed, so that no test finds what another has asked.
    asking = groups_pb2.AskingOptions(cache=groups_pb2.CACHE_MODE_REFRESH)
    return pb.ScoreAnswersRequest(
        **{"items": items, "rubrics": rubrics, "asking": asking, **options}
    )


Scores = dict[tuple[str, str], scores_pb2.AnswerScore]


def scored(
    stub: JudgeServiceStub, asked: pb.ScoreAnswersRequest, timeout: float = 30
) -> tuple[Scores, scores_pb2.ScoreSummary]:
    """The scores by item and rubric, and the summary, which must be the last message."""
    first, *messages = stub.ScoreAnswers(asked, timeout=timeout)
    assert first.WhichOneof("message") == "started"
    assert len(first.started.judges) == len(asked.rubrics)
    assert [m.WhichOneof("message") for m in messages[:-1]] == ["score"] * (len(messages) - 1)
    scores = {(m.score.item_id, m.score.rubric): m.score for m in messages[:-1]}
    assert len(scores) == len(messages) - 1
    return scores, messages[-1].summary


def score_of(
    stub: JudgeServiceStub, one: scores_pb2.AnswerItem, rubric: scores_pb2.RubricSpec
) -> scores_pb2.AnswerScore:
    scores, _ = scored(stub, request([one], rubric))
    return scores[one.item_id, rubric.rubric]


def judge_of(stub: JudgeServiceStub, rubric: scores_pb2.RubricSpec) -> verdicts_pb2.JudgeIdentity:
    # To its end: a call left behind would ask the provider while another test counts.
    first, *_ = stub.ScoreAnswers(request([item("judge")], rubric), timeout=30)
    return first.started.judges[0]


def outcome(score: scores_pb2.AnswerScore) -> tuple[str, str]:
    return verdicts_pb2.VerdictStatus.Name(score.status).removeprefix(
        "VERDICT_STATUS_"
    ), read_reason(score.error.reason)
