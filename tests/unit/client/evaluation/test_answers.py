"""A system asked and scored: bounded, whatever it does, and from where it stopped."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

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
    Unavailable,
)
from judged.evaluation import Answer, Question, evaluate_answers
from judged.evaluation.asking import signature_of
from judged.v1 import judge_service_pb2 as pb
from judged.v1.scores_pb2 import AnswerItem

from tests.fakes.score_service import Break, ScoreService, score_service

SURROGATE = "holds a lone surrogate at character 0, which UTF-8 can't carry"
QUESTIONS = [Question(str(i), f"question {i}", ["r"], [f"source {i}"]) for i in range(6)]


@pytest.fixture
def service() -> Iterator[ScoreService]:
    with score_service(lambda _, item, rubric: 1.0 if rubric == "a" else 0.5) as running:
        yield running


@pytest.fixture
def client(service: ScoreService) -> Iterator[Client]:
    with Client(service.address) as connected:
        yield connected


def echo(query: str) -> str:
    return f"about {query}"


def items_of(service: ScoreService) -> dict[str, AnswerItem]:
    return {item.item_id: item for request in service.requests for item in request.items}


class TestEvaluate:
    def test_contexts_that_the_system_used_are_those_it_is_scored_by(
        self, service: ScoreService, client: Client
    ):
        def system(query: str) -> Answer:
            used = None if query.endswith("0") else ([] if query.endswith("1") else ["mine"])
            return Answer("x", used, {"model": "m"})

        found = evaluate_answers(QUESTIONS, system, ["a"], client=client)
        sent = items_of(service)
        contexts = [list(sent[str(i)].contexts) for i in range(3)]
        assert contexts == [["source 0"], [], ["mine"]]
        assert found.items[0].answer.metadata == {"model": "m"}

    @pytest.mark.parametrize("concurrency", [1, 3])
    @pytest.mark.parametrize("is_async", [False, True])
    def test_no_more_at_once_than_said(self, client: Client, concurrency: int, is_async: bool):
        lock, now, most = threading.Lock(), [0], [0]
        gate = threading.Barrier(concurrency)

        def enter() -> None:
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])

        def system(query: str) -> str:
            enter()
            gate.wait(5)  # as many as said are in here together
            with lock:
                now[0] -= 1
            return query

        async def system_async(query: str) -> str:
            enter()
            for _ in range(20):  # the others get their turns
                await asyncio.sleep(0)
            now[0] -= 1
            return query

        asked = system_async if is_async else system
        evaluate_answers(QUESTIONS, asked, ["a"], client=client, concurrency=concurrency)
        assert most[0] == concurrency

    @pytest.mark.parametrize("is_async", [False, True])
    def test_an_exception_is_the_failure_of_its_question(
        self, service: ScoreService, client: Client, is_async: bool
    ):
        def system(query: str) -> object:
            if query.endswith("1"):
                raise ValueError("no idea")
            return {"2": None, "3": 7, "4": "\ud800", "5": Answer("x", "text")}.get(query[-1], "ok")

        async def system_async(query: str) -> object:
            return system(query)

        seen = []
        found = evaluate_answers(
            QUESTIONS,
            system_async if is_async else system,
            ["a"],
            client=client,
            progress=lambda *now: seen.append(now),
        )
        assert [item.failure for item in found.items] == [
            None,
            "ValueError: no idea",
            "TypeError: the system returned NoneType; return text or an Answer",
            "TypeError: the system returned int; return text or an Answer",
            f"ValueError: the text that the system returned {SURROGATE}",
            "TypeError: the contexts of an Answer must be a list of texts, not one text",
        ]
        assert [item.question.item_id for item in found.failures] == list("12345")
        assert found.items[1].scores == {}
        assert found.summary("a").counts.total == 1  # what failed is in no mean
        assert list(items_of(service)) == ["0"]
        assert seen[-1] == (12, 12)

    @pytest.mark.parametrize(
        ("questions", "rubrics", "message"),
        [
            ([], ["a"], "items: must hold at least one item"),
            (QUESTIONS, [], "rubrics: must hold at least one rubric"),
            ([*QUESTIONS, QUESTIONS[2]], ["a"], r"items\[6\]\.item_id: repeats items\[2\]"),
            ([QUESTIONS[0], Question("1", "\ud800")], ["a"], r"items\[1\]\.query: holds a lone"),
        ],
    )
    def test_what_is_wrong_is_known_before_anything_is_asked(
        self, client: Client, questions, rubrics, message: str
    ):
        def never(_: str) -> str:
            raise AssertionError

        with pytest.raises(InvalidArgument, match=f"^{message}"):
            evaluate_answers(questions, never, rubrics, client=client)
        with pytest.raises(InvalidArgument, match="concurrency: must be 1 or more"):
            evaluate_answers(QUESTIONS, never, ["a"], client=client, concurrency=0)


class TestResume:
    def test_what_is_answered_is_not_asked_again(self, client: Client, tmp_path: Path):
        log = tmp_path / "answers.jsonl"
        asked: list[str] = []

        def system(query: str) -> Answer:
            asked.append(query)
            if query.endswith("4") and len(asked) < 7:
                raise OSError("down")
            return Answer(f"about {query}", ["used"], {"tokens": 3})

        first = evaluate_answers(QUESTIONS, system, ["a"], client=client, resume=log, concurrency=1)
        assert [item.question.item_id for item in first.failures] == ["4"]
        seen = []
        second = evaluate_answers(
            QUESTIONS,
            system,
            ["a"],
            client=client,
            resume=log,
            progress=lambda *now: seen.append(now),
        )
        assert asked[6:] == ["question 4"]
        assert second.failures == []
        assert [item.answer for item in second.items] == [
            Answer(f"about question {i}", ["used"], {"tokens": 3}) for i in range(6)
        ]
        assert [item.resumed for item in second.items] == [True] * 4 + [False, True]
        assert seen == [(n, 12) for n in range(1, 13)]
        assert second.items[0].seconds == pytest.approx(first.items[0].seconds, abs=1e-6)

    def test_a_scoring_that_fails_loses_no_answer(self, tmp_path: Path):
        log, asked = tmp_path / "log", []

        def system(query: str) -> str:
            asked.append(query)
            return query

        down = Break(StatusCode.UNAVAILABLE)
        with score_service(lambda *_: down) as failing, Client(failing.address) as client:
            for _ in range(2):
                with pytest.raises(Unavailable):
                    evaluate_answers(
                        QUESTIONS, system, ["a"], client=client, resume=log, timeout=0.5
                    )
        assert len(asked) == 6

    @pytest.mark.parametrize("leave", [KeyboardInterrupt, SystemExit])
    @pytest.mark.parametrize("is_async", [False, True])
    def test_an_interrupt_keeps_what_was_answered(
        self, client: Client, tmp_path: Path, leave, is_async: bool
    ):
        log = tmp_path / "log"

        def system(query: str) -> str:
            if query.endswith("3"):
                raise leave
            return query

        async def system_async(query: str) -> str:
            return system(query)

        asked = system_async if is_async else system
        with pytest.raises(leave):
            evaluate_answers(QUESTIONS, asked, ["a"], client=client, resume=log, concurrency=1)
        lines = map(json.loads, log.read_text().splitlines())
        kept = [line["item_id"] for line in lines if "item_id" in line]
        assert kept[:3] == ["0", "1", "2"]
        asked_again: list[str] = []
        signed = signature_of(asked)

        class Later:
            signature = signed

            def __call__(self, query: str) -> str:
                asked_again.append(query)
                return query

        evaluate_answers(QUESTIONS, Later(), ["a"], client=client, resume=log, concurrency=1)
        assert sorted(asked_again) == [f"question {i}" for i in range(6) if str(i) not in kept]


class TestFirstChecks:
    """What can't be scored is refused before the system is asked: its answers cost money."""

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
