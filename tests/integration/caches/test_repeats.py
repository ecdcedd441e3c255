"""Replies that are lost on their way: what the provider is asked when the call comes again."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from judged import (
    AnswerItem,
    Asking,
    CacheMode,
    Client,
    InvalidArgument,
    Judge,
    QueryGroup,
)
from judged._transport.call import to_error
from judged.evaluation import Evaluator
from judged.v1 import groups_pb2, scores_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.cutting_proxy import CuttingProxy, cutting_proxy
from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said, ScriptedProvider
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import ServerProcess, running_server, until

_JUDGED = re.compile(r'name="(?:retrieved_text|answer)">\n(.*)\n<')
REFRESH = Asking(CacheMode.REFRESH)
LLM = Judge("llm")


Calls = Callable[[], int]


class Held:
    """Keeps back answers to texts with "held" in them while it is shut."""

    def __init__(self) -> None:
        self.open = threading.Event()

    async def script(self, asked: Asked) -> Said:
        text = json.loads(_JUDGED.findall(asked.user)[0])
        while "held" in text and not self.open.is_set():  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.01)
        form = asked.body["response_format"]["json_schema"]["schema"]["properties"]
        if "score" in form:
            return {"reasoning": "so it is", "score": 1.0}
        if "odd" in text:
            return {"reasoning": "so it is", "verdict": "perhaps"}
        return {"reasoning": "so it is", "verdict": "yes" if "yes" in text else "no"}


HELD = Held()


@pytest.fixture
def held() -> Iterator[Held]:
    HELD.open.clear()
    yield HELD
    HELD.open.set()


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with provider_on_a_thread(HELD.script) as running:
        yield running


@pytest.fixture
def calls(provider: ScriptedProvider) -> Callable[[], int]:
    """Return how many requests the provider had since the test began."""
    before = provider.requests
    return lambda: provider.requests - before


@pytest.fixture(scope="module")
def config(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder, models = tmp_path_factory.mktemp("config"), {"small": priced(1.0, 2.0)}
    return llm_config(folder, provider, models, provider_lines="max_concurrency = 2")


@pytest.fixture(scope="module")
def server(config: str) -> Iterator[ServerProcess]:
    """A server that keeps no replies of models: what it asks twice is charged twice."""
    with running_server("--llm-config", config, "--llm-cache", "off") as ready:
        yield ready


@pytest.fixture
def proxy(server: ServerProcess) -> Iterator[CuttingProxy]:
    with cutting_proxy(server.address) as running:
        yield running


@pytest.fixture
def stub(server: ServerProcess) -> Iterator[JudgeServiceStub]:
    with grpc.insecure_channel(server.address) as channel:
        yield JudgeServiceStub(channel)


def group(*retrieved: str) -> QueryGroup:
    return QueryGroup("q", ["e"], retrieved, "1")


def request(*retrieved: str, **fields: Any) -> pb.BatchJudgeRequest:
    return pb.BatchJudgeRequest(
        **{
            "groups": [groups_pb2.QueryGroup(query="q", expected=["e"], retrieved=retrieved)],
            "judge": groups_pb2.JudgeSpec(kind="llm"),
            "request_id": str(uuid.uuid4()),
            **fields,
        }
    )


@contextmanager
def cut_after(calls: Calls, proxy: CuttingProxy, held: Held, asked: int) -> Iterator[None]:
    """Cut the connection once so many questions were asked; answer them when it was cut."""

    def cut() -> None:
        until(lambda: calls() == asked)
        proxy.cut()
        until(lambda: proxy.dropped == 1)
        held.open.set()

    with ThreadPoolExecutor(1) as pool:
        cutting = pool.submit(cut)
        yield
        cutting.result(60)
    assert proxy.dropped == 1


@pytest.fixture
def client(proxy: CuttingProxy) -> Iterator[Client]:
    with Client(proxy.address, timeout=100) as client:
        yield client


@pytest.mark.parametrize("call", ["judge", "evaluate"])
@pytest.mark.parametrize("asking", [None, REFRESH], ids=["use", "refresh"])
def test_a_reply_that_was_lost_is_charged_once(
    calls: Calls, proxy: CuttingProxy, client: Client, call: str, asking: Asking | None
):
    proxy.drop_when = lambda: calls() == 3 and not proxy.dropped
    groups = [group("yes 1", "no 2", "yes 3")]
    if call == "judge":
        found: Any = client.judge(groups, LLM, asking=asking)
        assert found.relevant == [True, False, True]
    else:
        found = client.evaluate(groups, ["mrr"], LLM, asking=asking)
        assert found.table["mrr"].mean == 1.0
    assert proxy.dropped == 1
    assert calls() == found.usage.calls == 3


def test_a_call_that_is_cut_off_goes_on_for_its_next_try(
    calls: Calls, proxy: CuttingProxy, client: Client, held: Held
):
    texts = [f"held yes {n}" for n in range(5)]
    with cut_after(calls, proxy, held, 2):
        found = client.judge([group(*texts)], LLM, asking=REFRESH)
    assert found.relevant == [True] * 5
    assert calls() == found.usage.calls == 5


def test_scores_that_are_cut_off_go_on_for_their_next_try(
    calls: Calls, proxy: CuttingProxy, client: Client, held: Held
):
    items = [AnswerItem("at once", "q", "fine")]
    items += [AnswerItem(str(n), "q", f"held {n}") for n in range(5)]
    with cut_after(calls, proxy, held, 3):
        found = client.score_answers(items, ["helpfulness"], asking=REFRESH)
    assert [score.score for score in found] == [1.0] * 6
    assert calls() == 6


def test_a_score_is_that_of_the_same_call_alone(calls: Calls, stub: JudgeServiceStub):
    def scored(answer: str, **fields: Any) -> float:
        asked = pb.ScoreAnswersRequest(
            items=[scores_pb2.AnswerItem(item_id=str(uuid.uuid4()), query="q", answer=answer)],
            rubrics=[scores_pb2.RubricSpec(rubric="helpfulness")],
            request_id=request_id,
            **fields,
        )
        asked.asking.cache = groups_pb2.CACHE_MODE_REFRESH
        _, score, summary = stub.ScoreAnswers(asked, timeout=60)
        assert score.score.item_id == asked.items[0].item_id
        assert summary.summary.usage.calls == 1
        return calls()

    request_id = str(uuid.uuid4())
    assert [scored("a"), scored("a"), scored("b"), scored("a", include_replies=True)] == [
        1,
        1,
        2,
        3,
    ]
    request_id = str(uuid.uuid4())
    assert scored("a") == 4
    request_id = "1"
    with pytest.raises(grpc.RpcError) as caught:
        scored("a")
    assert getattr(to_error(caught.value, "here"), "field", "") == "request_id"


class TestRequestId:
    def test_the_same_call_gets_the_same_reply(self, calls: Calls, stub: JudgeServiceStub):
        asked = request("yes", "no")
        first = stub.BatchJudge(asked, timeout=60)
        assert stub.BatchJudge(asked, timeout=60) == first
        assert calls() == 2
        asked.request_id = str(uuid.uuid4())
        stub.BatchJudge(asked, timeout=60)
        assert calls() == 4

    def test_calls_at_once_are_one(
        self, provider: ScriptedProvider, calls: Calls, stub: JudgeServiceStub, held: Held
    ):
        asked = request("held yes")
        sent = [stub.BatchJudge.future(asked, timeout=60)]
        # gRPC hands calls over in any order: of three at once the one that leaves may be the first
        # to come, and alone by then.
        until(lambda: provider.in_flight == 1)
        sent += [stub.BatchJudge.future(asked, timeout=60) for _ in range(2)]
        sent.pop().cancel()
        held.open.set()
        replies = [call.result() for call in sent]
        assert replies[0] == replies[1]
        assert calls() == 1

    @pytest.mark.parametrize(
        "other",
        [
            lambda asked: asked.groups[0].retrieved.append("more"),
            lambda asked: asked.asking.SetInParent(),
            lambda asked: asked.judge.parameters["samples"].CopyFrom(
                groups_pb2.ParameterValue(int_value=3)
            ),
        ],
    )
    def test_another_call_may_not_have_it(self, calls: Calls, stub: JudgeServiceStub, other):
        asked = request("yes")
        stub.BatchJudge(asked, timeout=60)
        changed = pb.BatchJudgeRequest()
        changed.CopyFrom(asked)
        other(changed)
        evaluated = pb.EvaluateRequest(
            groups=asked.groups, judge=asked.judge, metrics=["mrr"], request_id=asked.request_id
        )
        for call, given in ((stub.BatchJudge, changed), (stub.Evaluate, evaluated)):
            with pytest.raises(grpc.RpcError) as caught:
                call(given, timeout=60)
            error = to_error(caught.value, "here")
            assert isinstance(error, InvalidArgument)
            assert (error.code, error.field) == ("INVALID_ARGUMENT", "request_id")
            assert "an id of its own" in error.message
        assert calls() == 1

    def test_a_chunk_of_which_a_verdict_failed_is_not_asked_again(
        self, calls: Calls, stub: JudgeServiceStub
    ):
        asked = request("yes", "odd")
        start = pb.StreamJudgeStart(judge=asked.judge, request_id=asked.request_id)
        chunk = pb.JudgeChunk(chunk_id=1, groups=asked.groups)
        sent = [pb.StreamJudgeRequest(start=start), pb.StreamJudgeRequest(chunk=chunk)]
        found = [list(stub.StreamJudge(iter(sent), timeout=60)) for _ in range(2)]
        assert [fault.index for fault in found[0][-1].chunk.verdicts.errors] == [1]
        assert found[0][-1] == found[1][-1]
        assert calls() == 3, "one text in the right form, the other asked for once more"

    def test_a_caller_who_leaves_ends_a_call_without_an_id(
        self, provider: ScriptedProvider, calls: Calls, stub: JudgeServiceStub, held: Held
    ):
        asked = request(*(f"held {n}" for n in range(300)), request_id="")
        call = stub.BatchJudge.future(asked, timeout=60)
        until(lambda: provider.in_flight == 2)
        call.cancel()
        until(lambda: not provider.in_flight)
        assert calls() == 2
        held.open.set()
        again = stub.BatchJudge(asked, timeout=60)
        assert len(again.verdicts.relevant) == 300
        assert calls() == 302


def test_the_access_log_tells_what_models_took_once(server: ServerProcess, stub: JudgeServiceStub):
    asked = request("yes", "no")
    cheap = request("e", judge=groups_pb2.JudgeSpec(kind="exact"))
    for name, given in (("first", asked), ("again", asked), ("cheap", cheap)):
        stub.BatchJudge(given, timeout=20, metadata=(("x-request-id", name),))

    def lines() -> dict[str, Any]:
        told = [json.loads(line) for line in server.log_text().splitlines()]
        return {line["request_id"]: line for line in told if line.get("part") == "call"}

    until(lambda: {"first", "again", "cheap"} <= set(lines()))
    told = lines()
    first = told["first"]
    assert first["model_calls"] == 2
    assert first["input_tokens"] > first["output_tokens"] > 0
    assert first["model_ms"] > 0
    assert first["cost"] == pytest.approx(
        (first["input_tokens"] + 2 * first["output_tokens"]) / 1e6, rel=1e-6
    )
    for name in ("again", "cheap"):
        assert not {"model_calls", "model_ms", "input_tokens", "cost"} & set(told[name])


def test_a_stream_that_is_cut_off_is_charged_once(
    calls: Calls, proxy: CuttingProxy, client: Client, held: Held
):
    groups = [QueryGroup(f"q{n}", ["e"], [f"held yes {n}"], str(n)) for n in range(5)]
    with cut_after(calls, proxy, held, 2):
        found = Evaluator(client).evaluate_groups(groups, ["mrr"], LLM, asking=REFRESH)
    assert found.table["mrr"].mean == 1.0
    assert calls() == 5
