"""Bad requests to ScoreAnswers."""

from __future__ import annotations

from functools import partial

from judged.v1 import groups_pb2, scores_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.integration.bad_input.case import LONG, NAN, case
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
    case("JudgeSpec.kind", "judge.kind", lambda: batch(kind="answers")),
    case("ScoreAnswersRequest.items", "items", lambda: pb.ScoreAnswersRequest(rubrics=[rubric()])),
    case(
        "ScoreAnswersRequest.items",
        "items",
        lambda: score(*[item()] * 10_000, rubrics=[rubric()] * 101),
    ),
    case("ScoreAnswersRequest.rubrics", "rubrics", lambda: score(rubrics=[])),
    case(
        "ScoreAnswersRequest.asking",
        "asking.max_cost",
        lambda: score(asking=groups_pb2.AskingOptions(max_cost=0)),
    ),
    *(
        case(
            "ScoreAnswersRequest.request_id",
            "request_id",
            partial(score, rubrics=[rubric("answer_match")], request_id=wrong),
        )
        for wrong in ("1", "0b0b9b3c-52c0-1f0a-9a44-5b3c8a7b1d11", "x" * 36)
    ),
    case("AnswerItem.item_id", "items[1].item_id", lambda: score(item(), item(item_id=""))),
    case("AnswerItem.item_id", "items[1].item_id", lambda: score(item(), item())),
    case("AnswerItem.item_id", "items[0].item_id", lambda: score(item(item_id=LONG))),
    case("AnswerItem.query", "items[0].query", lambda: score(item(query=LONG))),
    case("AnswerItem.answer", "items[0].answer", lambda: score(item(answer=LONG))),
    case(
        "AnswerItem.references",
        "items[0].references[1]",
        lambda: score(item(references=["", LONG])),
    ),
    case("AnswerItem.contexts", "items[0].contexts[0]", lambda: score(item(contexts=[LONG]))),
    case(
        "AnswerItem.other_answer", "items[0].other_answer", lambda: score(item(other_answer=LONG))
    ),
    case(
        "AnswerItem.sources_used",
        "items[0].sources_used[0]",
        lambda: score(item(sources_used=[LONG])),
    ),
    *(
        case("AnswerItem.confidence", "items[0].confidence", partial(score, item(confidence=wrong)))
        for wrong in (NAN, -0.1, 1.1)
    ),
    case("RubricSpec.rubric", "rubrics[1].rubric", lambda: second(rubric="")),
    case("RubricSpec.rubric", "rubrics[1].rubric", lambda: second(rubric="helpfulness")),
    case("RubricSpec.rubric", "rubrics[1].rubric", lambda: second(rubric="retrieval_match")),
    case("RubricSpec.rubric", "", lambda: second(rubric="taste"), "NOT_FOUND"),
    case("RubricSpec.rubric", "", score, "FAILED_PRECONDITION"),
    case(
        "RubricSpec.calibration",
        "rubrics[1].calibration.name",
        lambda: second(calibration=groups_pb2.JudgeCalibration(name="unknown")),
    ),
    case("RubricSpec.min_score", "rubrics[1].min_score", lambda: second(min_score=NAN)),
    case(
        "RubricSpec.parameters",
        'rubrics[1].parameters["sample"]',
        lambda: parameter("sample", int_value=1),
    ),
    case("RubricSpec.parameters", 'rubrics[1].parameters["model"]', lambda: parameter("model")),
    case(
        "RubricSpec.parameters",
        'rubrics[1].parameters["samples"]',
        lambda: parameter("samples", int_value=33),
    ),
    case(
        "RubricSpec.parameters",
        'rubrics[1].parameters["temperature"]',
        lambda: parameter("temperature", double_value=NAN),
    ),
    case(
        "RubricSpec.parameters",
        'rubrics[1].parameters["max_context_tokens"]',
        lambda: parameter("max_context_tokens", int_value=0),
    ),
    case("RubricSpec.weights", 'rubrics[1].weights["wit"]', lambda: second(weights={"wit": 1})),
    case(
        "RubricSpec.weights",
        'rubrics[1].weights["relevance"]',
        lambda: second(weights={"relevance": NAN}),
    ),
    case("RubricSpec.weights", "rubrics[1].weights", lambda: second(weights={"relevance": 0})),
    case(
        "RubricSpec.weights",
        "rubrics[0].weights",
        lambda: score(rubrics=[rubric(weights={"relevance": 1})]),
    ),
]

HARMLESS = {
    "ScoreAnswersRequest.include_replies": "a switch",
    "RubricSpec.ParametersEntry.key": "see RubricSpec.parameters",
    "RubricSpec.ParametersEntry.value": "see RubricSpec.parameters",
    "RubricSpec.WeightsEntry.key": "see RubricSpec.weights",
    "RubricSpec.WeightsEntry.value": "see RubricSpec.weights",
}
