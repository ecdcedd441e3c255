"""Scores over a real wire, from a service in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator

import grpc
import pytest
from judged import (
    AnswerItem,
    AsyncClient,
    Client,
    DeadlineExceeded,
    InternalError,
    InvalidArgument,
    NotFound,
    Overloaded,
    ScoredAnswers,
    Status,
    Unavailable,
)
from judged._transport import call

from tests.fakes.score_service import Break, ScoreService, Script, score_service

ITEMS = [AnswerItem(str(i), "q", "a") for i in range(10)]
GONE = Break(grpc.StatusCode.UNAVAILABLE)


@pytest.fixture(autouse=True)
def hurry(monkeypatch):
    monkeypatch.setattr(call, "FIRST_DELAY_S", 0.001)


def items_of(part: int) -> list[AnswerItem]:
    """Return the items with texts so long that a message holds `part` of them."""
    return [AnswerItem(item.item_id, item.query, "a" * (2_700_000 // part)) for item in ITEMS]


def until(fact: Callable[[], bool], seconds: float = 5.0) -> None:
    ends = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < ends
        time.sleep(0.005)


def by_item(_, item, rubric) -> float:
    return (int(item.item_id) + (0.5 if rubric == "b" else 0)) / 10


def once(broken: Break, at: str, otherwise: Script = by_item) -> Script:
    """Break the stream the first time that an item's turn comes."""
    left = [broken]

    def script(request, item, rubric):
        return left.pop() if item.item_id == at and left else otherwise(request, item, rubric)

    return script


async def both(service: ScoreService, *arguments, **options) -> list[ScoredAnswers]:
    """Return what either client makes of a call."""
    with Client(service.address) as client:
        ours = client.score_answers(*arguments, **options)
    async with AsyncClient(service.address) as client:
        return [ours, await client.score_answers(*arguments, **options)]


class TestBreaks:
    async def test_what_is_missing_is_asked_again_and_no_more(self):
        with score_service(once(GONE, "5")) as service, Client(service.address) as client:
            found = client.score_answers(ITEMS, ["a"])
        assert found.errors == {}
        assert [len(r.items) for r in service.requests] == [10, 6]
        assert len(set(service.request_ids)) == 2  # it goes on with other work

    async def test_a_part_that_fails_for_good_leaves_the_rest(self):
        inner = Break(grpc.StatusCode.INTERNAL)

        def script(request, item, rubric):
            return inner if item.item_id == "4" else 1.0

        with score_service(script) as service:
            for found in await both(service, items_of(2), ["a"]):
                # 5 came before the stream of 4 and 5 broke.
                assert [s.status for s in found] == [Status.OK] * 4 + [Status.ERROR] + [
                    Status.OK
                ] * 5
                assert found.errors[4].reason == "INTERNAL"
                assert found.rubrics[0].counts.error == 1
                assert found.rubrics[0].mean == 1.0

    @pytest.mark.parametrize(
        ("code", "kind"),
        [
            (grpc.StatusCode.UNAVAILABLE, Unavailable),
            (grpc.StatusCode.INTERNAL, InternalError),
            (grpc.StatusCode.RESOURCE_EXHAUSTED, Overloaded),
            (grpc.StatusCode.NOT_FOUND, NotFound),
            (grpc.StatusCode.INVALID_ARGUMENT, InvalidArgument),
        ],
    )
    async def test_raises_when_nothing_was_answered(self, code, kind):
        with score_service(lambda *_: Break(code)) as service:
            with Client(service.address, max_retries=0) as client, pytest.raises(kind):
                client.score_answers(items_of(4), ["a"])
            async with AsyncClient(service.address, max_retries=0) as client:
                with pytest.raises(kind):
                    await client.score_answers(items_of(4), ["a"])

    async def test_a_stream_that_lacks_scores_is_a_fault_of_the_server(self):
        with score_service(lambda _, item, __: None if item.item_id == "3" else 1.0) as service:
            for found in await both(service, ITEMS, ["a"]):
                assert found.errors.keys() == {3}
                assert "1 scores missing" in found.errors[3].message

    async def test_a_lost_summary_loses_nothing(self):
        with score_service(by_item) as service:
            service.with_summary = False
            for found in await both(service, ITEMS, ["a"]):
                assert found.errors == {}
                assert found.usage.calls == 10

    async def test_the_deadline_keeps_what_came(self):
        never = threading.Event()

        def script(request, item, rubric):
            if item.item_id == "2":
                never.wait(3)
            return 1.0

        with score_service(script) as service:
            try:
                for found in await both(service, ITEMS, ["a"], timeout=0.5):
                    assert found.errors.keys() == {0, 1, 2}
                    assert found.errors[0].reason == "DEADLINE_EXCEEDED"
                with Client(service.address) as client, pytest.raises(DeadlineExceeded):
                    client.score_answers(ITEMS[2:3], ["a"], timeout=0.3)
            finally:
                never.set()


class TestLeaving:
    @pytest.mark.parametrize("part", [1000, 2])
    def test_to_leave_early_ends_the_stream(self, part: int):
        never = threading.Event()

        def script(request, item, rubric):
            if item.item_id == "0":
                never.wait(10)
            return 1.0

        with score_service(script) as service, Client(service.address) as client:
            stream = client.stream_scores(items_of(part), ["a"])
            next(stream)
            assert isinstance(stream, Generator)
            stream.close()
            until(lambda: service.ended == len(service.requests))
            never.set()
