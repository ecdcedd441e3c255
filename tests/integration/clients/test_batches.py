"""judge() through a real server: any size, in order, and what happens when things fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from judged import (
    AsyncClient,
    Client,
    Embeddings,
    Flag,
    InvalidArgument,
    Judge,
    Overloaded,
    QueryGroup,
    Status,
)
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import verdicts_pb2
from judged.v1.judge_service_pb2_grpc import (
    JudgeServiceServicer,
    add_JudgeServiceServicer_to_server,
)
from judged_server import errors
from judged_server.api.status import to_wire

from tests.conformance.prose import build_groups


def groups(seed: int, queries: int) -> list[QueryGroup]:
    return [QueryGroup(g.query, g.expected, g.retrieved) for g in build_groups(seed, queries)]


class TestLargeBatches:
    def test_thirty_thousand_contexts_in_one_call(self, client: Client):
        work = groups(5, 1000)
        seen = []
        verdicts = client.judge(
            work, "exact", progress=lambda done, total: seen.append((done, total))
        )
        wanted = [e == r for g in work for r in g.retrieved for e in g.expected]
        assert list(verdicts.relevant) == wanted
        assert len(wanted) == 30_000
        assert verdicts.coverage == 1.0
        assert seen[-1] == (30_000, 30_000)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)

    def test_one_group_above_every_message_limit(self, client: Client):
        texts = [f"{i} " + "x" * 1_000_000 for i in range(24)]
        verdicts = client.judge([QueryGroup("q", texts[:3], texts)], "exact")
        assert list(verdicts.relevant) == [a == b for b in range(24) for a in range(3)]

    async def test_the_asynchronous_client_says_the_same(self, client: Client, server_address: str):
        work = groups(6, 60)
        async with AsyncClient(server_address) as other:
            ours, theirs = client.judge(work), await other.judge(work)
            assert list(ours) == list(theirs)
            chunks = [work[:3], work[3:5]]
            streamed = [chunk async for chunk in other.judge_stream(chunks)]
            assert {c.chunk_id: c.verdicts.score for c in streamed} == {
                c.chunk_id: c.verdicts.score for c in client.judge_stream(chunks)
            }
            named = [
                QueryGroup(g.query, g.expected, g.retrieved, str(i)) for i, g in enumerate(work)
            ]
            assert client.evaluate(named, ["ap"]) == await other.evaluate(named, ["ap"])
            assert client.server_info() == await other.server_info()


class TestBadItems:
    def test_the_path_of_a_bad_text_is_that_of_the_batch(self, client: Client):
        work = groups(5, 300)
        work[250] = QueryGroup("q", ["e"], ["fine", "x" * ((1 << 20) + 1)])
        with pytest.raises(InvalidArgument) as caught:
            client.judge(work)
        assert caught.value.field == "groups[250].retrieved[1]"

    def test_a_chunk_that_can_not_be_sent_is_named(self, client: Client):
        chunks = [[QueryGroup("q", ["a"], ["a"])], [QueryGroup("q", ["a"], ["bad \ud800"])]]
        with pytest.raises(InvalidArgument, match="lone surrogate") as caught:
            list(client.judge_stream(chunks, "exact"))
        assert caught.value.field == "chunks[1].groups[0].retrieved[0]"

    def test_a_text_that_semantic_must_reject_is_that_verdicts_error(self, client: Client):
        judge = Judge("semantic", parameters={"long_text": "reject"})
        long = "word " * 2000
        verdicts = client.judge([QueryGroup("q", ["short text"], ["short text", long])], judge)
        assert [v.status for v in verdicts] == [Status.OK, Status.ERROR]
        assert verdicts[1].error.reason == "TEXT_TOO_LONG"
        assert verdicts[0].relevant
        flagged = client.judge([QueryGroup("q", ["short text"], [long])], "semantic")
        assert flagged[0].flags == Flag.TRUNCATED


class TestEmbeddings:
    def test_a_callers_vectors_take_the_place_of_texts(self, client: Client):
        vectors = Embeddings.from_rows([[1.0, 0.0]], [[2.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0, 0]])
        verdicts = client.judge([QueryGroup(embeddings=vectors)], "semantic")
        assert list(verdicts.score) == [1.0, 0.0, 0.0, 0.0]
        # They were not made by the server's model, and the signature does not say so.
        assert verdicts.judge.signature == "semantic|model:caller|min_score:0.75|v1"

    def test_vectors_and_texts_do_not_mix_in_a_call(self, client: Client):
        vectors = Embeddings.from_rows([[1.0]], [[1.0]])
        groups = [QueryGroup(embeddings=vectors), QueryGroup("q", ["a"], ["a"])]
        with pytest.raises(InvalidArgument, match="takes embeddings, not texts") as caught:
            client.judge(groups, "semantic")
        assert caught.value.field == "groups[1].embeddings"
        named = Judge("semantic", parameters={"model": "all-minilm-l6-v2"})
        with pytest.raises(InvalidArgument, match="takes texts, not"):
            client.judge(groups[:1], named)
        with pytest.raises(InvalidArgument, match="takes texts, not"):
            client.judge(groups[:1])


class Faulty(JudgeServiceServicer):
    """Answers by script: an error to raise, or None for an honest answer."""

    def __init__(self, script: list[errors.JudgedError | None]) -> None:
        self.script = script
        self.calls = 0
        self.request_ids: list[str] = []

    async def BatchJudge(self, request: Any, context: Any) -> Any:
        self.calls += 1
        self.request_ids.append(dict(context.invocation_metadata())["x-request-id"])
        fault = self.script.pop(0) if self.script else None
        if fault is not None:
            wire = to_wire(fault)
            await context.abort(wire.code, wire.message, wire.trailers)
        total = sum(len(g.expected) * len(g.retrieved) for g in request.groups)
        return pb.BatchJudgeResponse(
            verdicts=verdicts_pb2.VerdictColumns(relevant=[True] * total, score=[1.0] * total)
        )


@pytest.fixture
async def faulty() -> AsyncIterator[tuple[Faulty, str]]:
    server = grpc.aio.server()
    # Abstract in the stub alone: at run time the other calls answer UNIMPLEMENTED.
    service = Faulty([])  # type: ignore[abstract]
    add_JudgeServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield service, f"127.0.0.1:{port}"
    await server.stop(0)


def busy() -> errors.Overloaded:
    return errors.Overloaded("busy", 0.01)


async def judge(address: str, asynchronous: bool, size: int = 1, seconds: float = 30) -> Any:
    """Judge `size` groups of one chunk each, with either client."""
    work = [QueryGroup("q", ["e"], ["r" * (1 << 20)])] * size
    if asynchronous:
        async with AsyncClient(address) as client:
            return await client.judge(work, timeout=seconds)

    def blocking() -> Any:
        with Client(address) as client:
            return client.judge(work, timeout=seconds)

    return await asyncio.to_thread(blocking)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["Client", "AsyncClient"])
class TestRetries:
    async def test_a_busy_server_is_asked_again_under_the_same_id(self, faulty, asynchronous):
        service, address = faulty
        service.script = [busy(), errors.Draining("bye", 0.01), None]
        assert (await judge(address, asynchronous))[0].relevant
        assert service.calls == 3
        assert len(set(service.request_ids)) == 1

    async def test_what_would_fail_again_is_asked_once(self, faulty, asynchronous):
        service, address = faulty
        service.script = [errors.InvalidField("groups[0].query", "no")]
        with pytest.raises(InvalidArgument):
            await judge(address, asynchronous)
        assert service.calls == 1

    async def test_retries_are_bounded(self, faulty, asynchronous):
        service, address = faulty
        service.script = [busy() for _ in range(50)]
        with pytest.raises(Overloaded):
            await judge(address, asynchronous, seconds=2)
        assert 1 < service.calls <= 1 + 10 + 2 * 5

    async def test_a_failed_chunk_is_its_own_status_and_the_rest_goes_on(
        self, faulty, asynchronous
    ):
        service, address = faulty
        service.script = [None, errors.InternalFault("abc"), None]
        verdicts = await judge(address, asynchronous, size=3)
        statuses = [v.status for v in verdicts]
        assert sorted(statuses) == [Status.OK, Status.OK, Status.ERROR]
        error = verdicts[statuses.index(Status.ERROR)].error
        assert error.reason == "INTERNAL"
