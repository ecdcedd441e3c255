"""Bad requests to ScoreAnswers."""

from __future__ import annotations

from functools import partial

from judged.v1 import groups_pb2, scores_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.integration.bad_input.case import LONG, NAN, Case
from tests.integration.bad_input.judging import batch


def item(**changes: object) -> scores_pb2.AnswerItem:
    return scores_pb2.AnswerItem(**{"item_id": "1", "query": "q", "answer": "a", **changes})


def score(
    *items: scores_pb2.AnswerItem,
    rubrics: list[scores_pb2.RubricSpec] | None = None,
    **changes: object,
) -> pb.ScoreAnswersRequest:
    given = {"items": items or [item()], "rubrics": [rubric()] if rubrics is None else rubrics}
    return pb.ScoreAnswersRequest(**{**given, **changes})


def rubric(rubric: str = "helpfulness", **changes: object) -> scores_pb2.RubricSpec:
    return scores_pb2.RubricSpec(rubric=rubric, **changes)


def second(**changes: object) -> pb.ScoreAnswersRequest:
    """A good rubric, and one with these changes."""
    return score(rubrics=[rubric(), rubric(**{"rubric": "answer_quality", **changes})])


def parameter(name: str, **value: object) -> pb.ScoreAnswersRequest:
    return second(parameters={name: groups_pb2.ParameterValue(**value)})


CASES = [
    Case("judge.kind", lambda: batch(kind="answers")),
    Case("items", lambda: pb.ScoreAnswersRequest(rubrics=[rubric()])),
    Case("items", lambda: score(*[item()] * 10_000, rubrics=[rubric()] * 101)),
    Case("rubrics", lambda: score(rubrics=[])),
    Case("asking.max_cost", lambda: score(asking=groups_pb2.AskingOptions(max_cost=0))),
    *(
        Case(
            "request_id",
            partial(score, rubrics=[rubric("answer_match")], request_id=wrong),
        )
        for wrong in ("1", "0b0b9b3c-52c0-1f0a-9a44-5b3c8a7b1d11", "x" * 36)
    ),
    Case("items[1].item_id", lambda: score(item(), item(item_id=""))),
    Case("items[1].item_id", lambda: score(item(), item())),
    Case("items[0].item_id", lambda: score(item(item_id=LONG))),
    Case("items[0].query", lambda: score(item(query=LONG))),
    Case("items[0].answer", lambda: score(item(answer=LONG))),
    Case("items[0].references[1]", lambda: score(item(references=["", LONG]))),
    Case("items[0].contexts[0]", lambda: score(item(contexts=[LONG]))),
    Case("items[0].other_answer", lambda: score(item(other_answer=LONG))),
    Case("items[0].sources_used[0]", lambda: score(item(sources_used=[LONG]))),
    *(
        Case("items[0].confidence", partial(score, item(confidence=wrong)))
        for wrong in (NAN, -0.1, 1.1)
    ),
    Case("rubrics[1].rubric", lambda: second(rubric="")),
    Case("rubrics[1].rubric", lambda: second(rubric="helpfulness")),
    Case("rubrics[1].rubric", lambda: second(rubric="retrieval_match")),
    Case("", lambda: second(rubric="taste"), "NOT_FOUND"),
    Case("", score, "FAILED_PRECONDITION"),
    Case(
        "rubrics[1].calibration.name",
        lambda: second(calibration=groups_pb2.JudgeCalibration(name="unknown")),
    ),
    Case("rubrics[1].min_score", lambda: second(min_score=NAN)),
    Case('rubrics[1].parameters["sample"]', lambda: parameter("sample", int_value=1)),
    Case('rubrics[1].parameters["model"]', lambda: parameter("model")),
    Case('rubrics[1].parameters["samples"]', lambda: parameter("samples", int_value=33)),
    Case(
        'rubrics[1].parameters["temperature"]', lambda: parameter("temperature", double_value=NAN)
    ),
    Case(
        'rubrics[1].parameters["max_context_tokens"]',
        lambda: parameter("max_context_tokens", int_value=0),
    ),
    Case('rubrics[1].weights["wit"]', lambda: second(weights={"wit": 1})),
    Case('rubrics[1].weights["relevance"]', lambda: second(weights={"relevance": NAN})),
    Case("rubrics[1].weights", lambda: second(weights={"relevance": 0})),
    Case("rubrics[0].weights", lambda: score(rubrics=[rubric(weights={"relevance": 1})])),
]

HARMLESS = {
    "ScoreAnswersRequest.include_replies": "a switch",
    "RubricSpec.ParametersEntry.key": "see RubricSpec.parameters",
    "RubricSpec.ParametersEntry.value": "see RubricSpec.parameters",
    "RubricSpec.WeightsEntry.key": "see RubricSpec.weights",
    "RubricSpec.WeightsEntry.value": "see RubricSpec.weights",
}
