"""What can't be scored is refused before a system is asked: its answers cost time and money."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from grpc import StatusCode
from judged import (
    Asking,
    CacheMode,
    Client,
    FailedPrecondition,
    InvalidArgument,
    JudgedError,
    Rubric,
)
from judged.evaluation import Question, evaluate_answers
from judged.v1 import judge_service_pb2 as pb

from tests.fakes.score_service import Break, ScoreService, score_service

QUESTIONS = [Question(str(i), f"question {i}", ["r"]) for i in range(3)]


@pytest.fixture
def service() -> Iterator[ScoreService]:
    with score_service(lambda *_: 1.0) as running:
        yield running


@pytest.fixture
def client(service: ScoreService) -> Iterator[Client]:
    with Client(service.address) as connected:
        yield connected


def echo(query: str) -> str:
    return f"about {query}"


def never(_: str) -> str:
    raise AssertionError


class TestServer:
    """It is asked what it would say of the scoring, and no model is."""

    def refused(self, client: Client, error: type[Exception], message: str, **more) -> None:
        rubrics = more.pop("rubrics", ["a"])
        asked: list[str] = []
        with pytest.raises(error, match=message):
            evaluate_answers(QUESTIONS, asked.append, rubrics, client=client, **more)
        assert asked == []

    def test_what_the_server_refuses(self, service: ScoreService, client: Client):
        service.refusal = Break(StatusCode.NOT_FOUND, "no such rubric")
        self.refused(client, JudgedError, "no such rubric", asking=Asking(max_cost=1))
        (asked,) = service.estimates
        assert [spec.rubric for spec in asked.rubrics] == ["a"]
        assert (asked.items[0].query, list(asked.items[0].references)) == ("question 0", ["r"])
        assert asked.asking.max_cost == 1
        assert service.requests == []

    def test_a_model_without_its_key(self, service: ScoreService, client: Client):
        service.chat_models = [
            pb.ChatModelInfo(name="big", is_default=True, unavailable="set KEY"),
            pb.ChatModelInfo(name="small"),
        ]
        why = "language model 'big' can't be asked: set KEY"
        self.refused(client, FailedPrecondition, why)
        named = [Rubric("a", parameters={"model": "small"}), Rubric("b", parameters={"model": ""})]
        self.refused(client, FailedPrecondition, why, rubrics=named)
        found = evaluate_answers(QUESTIONS, echo, named[:1], client=client)
        assert found.summary("a").mean == 1.0
        only = Asking(CacheMode.ONLY)  # which asks no model
        assert evaluate_answers(QUESTIONS, echo, ["a"], client=client, asking=only).failures == []


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (
            {"query": "q"},
            r"items\[1\]: must be a Question\(",
        ),
        (Question("1", "\ud800"), r"items\[1\]\.query: holds a lone surrogate"),
    ],
)
def test_questions_that_are_none(client: Client, question, message: str):
    with pytest.raises(InvalidArgument, match=f"^{message}"):
        evaluate_answers([QUESTIONS[0], question], never, ["a"], client=client)
