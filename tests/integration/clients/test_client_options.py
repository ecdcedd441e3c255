"""Options of clients: what each call has, how often it is tried, what goes along with it."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from judged import (
    AnswerItem,
    Client,
    InvalidArgument,
    JudgedError,
    QueryGroup,
    TextItem,
    Unavailable,
)
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceServicer

from tests.fakes.services import running

Answer = Callable[[grpc.ServicerContext], None]


class Info(JudgeServiceServicer):
    """Answers GetServerInfo, once `answer` has had its way; keeps the metadata of each try."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.tries: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.address = ""

    def GetServerInfo(
        self, request: pb.GetServerInfoRequest, context: grpc.ServicerContext
    ) -> pb.GetServerInfoResponse:
        self.tries.append(dict(context.invocation_metadata()))
        self.times.append(context.time_remaining())
        self.answer(context)
        return pb.GetServerInfoResponse(version="fake")


@contextmanager
def serving(answer: Answer = lambda _: None) -> Iterator[Info]:
    service = Info(answer)  # type: ignore[abstract]
    with running(service):
        yield service


def busy(context: grpc.ServicerContext) -> None:
    context.abort(grpc.StatusCode.UNAVAILABLE, "shutting down")


def test_a_timeout_holds_for_each_call_that_has_none_of_its_own() -> None:
    with serving() as service, Client(service.address, timeout=50) as client:
        client.server_info()
        client.server_info(timeout=20)
        client.with_options(timeout=30).server_info()
        client.server_info()
    assert [round(seconds) for seconds in service.times] == [50, 20, 30, 50]


def test_a_message_is_sent_again_max_retries_times() -> None:
    with serving(busy) as service, Client(service.address, max_retries=2) as client:
        with pytest.raises(Unavailable):
            client.server_info(timeout=60)
        assert len(service.tries) == 3
        with pytest.raises(Unavailable):
            client.with_options(max_retries=0).server_info(timeout=60)
        assert len(service.tries) == 4


def test_metadata_go_along_with_every_call_and_options_are_kept() -> None:
    with serving() as service, Client(service.address, metadata={"X-Team": "search"}) as client:
        client.server_info()
        client.with_options(timeout=5).server_info()
        client.with_options(metadata={"x-run": "1"}).server_info()
    teams = [(told.get("x-team"), told.get("x-run")) for told in service.tries]
    assert teams == [("search", None), ("search", None), (None, "1")]
    assert all(told["x-request-id"] for told in service.tries)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"max_retries": -1}, "max_retries"),
        ({"metadata": {"authorization": "Bearer x"}}, "metadata"),
        ({"metadata": {"a": 1}}, "metadata"),
    ],
)
def test_what_is_no_option_is_named(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Client("127.0.0.1:1", **options)
    assert caught.value.field == field
    with Client("127.0.0.1:1") as client, pytest.raises(InvalidArgument):
        client.with_options(**options)


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.judge([QueryGroup("q", ["a"], ["b"])], "nobody"),
        lambda client: client.evaluate([QueryGroup("q", ["a"], ["b"], "q1")], ["mrrr"]),
        lambda client: client.compute_text_metrics(["bleue"], [TextItem("a", ["b"])]),
        lambda client: client.score_answers([AnswerItem("i", "q", "a")], ["nothing"]),
    ],
)
def test_the_traceback_of_a_refusal_has_nothing_of_grpc(client: Client, call) -> None:
    with pytest.raises(JudgedError) as caught:
        call(client)
    told = "".join(traceback.format_exception(caught.value))
    assert "During handling" not in told
    assert "site-packages/grpc" not in told
