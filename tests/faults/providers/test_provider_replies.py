"""Replies that are cut, or that never end: over a real socket."""

from __future__ import annotations

import json
import tracemalloc
from contextlib import suppress

import pytest
from judged_server.llm.chat import ProviderFault, Reason, TokenUsage
from judged_server.llm.config import ProviderConfiguration
from judged_server.llm.providers.dialects import DIALECTS
from judged_server.llm.transport.http import MAX_BODY_BYTES, HttpTransport

from tests.fakes.providers.faulty_http import (
    Connection,
    always,
    chunked,
    completion,
    faulty_http,
    reply,
)
from tests.faults.providers.provider import GOOD, REQUEST, fault_of, models_at

WHOLE = {"length": GOOD, "chunked": chunked(completion())}


class TestCutReplies:
    @pytest.mark.parametrize("form", WHOLE)
    async def test_are_faults_wherever_they_are_cut(self, form):
        response = WHOLE[form]
        cut_at = 0

        async def cut(connection: Connection) -> None:
            await connection.send(response[:cut_at])

        async with faulty_http(cut) as server:
            transport = HttpTransport(ProviderConfiguration("p", server.url))
            for cut_at in range(len(response)):
                with pytest.raises(ProviderFault) as caught:
                    got = await transport.post("/x", {}, b"{}", 30.0)
                    DIALECTS["openai"].read_reply(got.status, got.body)
                assert caught.value.retryable, f"cut at {cut_at}"
                assert caught.value.reason in {Reason.PROVIDER_UNREACHABLE, Reason.PROVIDER_ERROR}
            cut_at = len(response)
            got = await transport.post("/x", {}, b"{}", 30.0)
            assert DIALECTS["openai"].read_reply(got.status, got.body).text == "YES"
            await transport.close()

    async def test_without_a_length_are_faults_even_when_they_are_whole(self):
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
        async with faulty_http(always(head + completion())) as server:
            transport = HttpTransport(ProviderConfiguration("p", server.url))
            with pytest.raises(ProviderFault, match="how long it is"):
                await transport.post("/x", {}, b"{}", 30.0)
            await transport.close()


async def endless(connection: Connection) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    with suppress(ConnectionError):
        while True:
            await connection.send(b"10000\r\n" + bytes(0x10000) + b"\r\n")


async def a_gigabyte(connection: Connection) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")
    with suppress(ConnectionError):
        for _ in range(1 << 14):
            await connection.send(bytes(1 << 16))


class TestLargeReplies:
    @pytest.mark.parametrize("behaviour", [endless, a_gigabyte], ids=["endless", "gigabyte"])
    async def test_are_dropped_at_the_limit(self, behaviour):
        async with faulty_http(behaviour) as server, models_at(server.url) as model:
            tracemalloc.start()
            try:
                fault = await fault_of(model)
                _, peak = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
        assert (fault.reason, fault.retryable) == (Reason.PROVIDER_ERROR, False)
        assert f"larger than {MAX_BODY_BYTES} bytes" in fault.message
        assert peak < 20 << 20

    @pytest.mark.parametrize("extra", [0, 1])
    async def test_the_limit_is_exact(self, extra):
        body = completion().ljust(MAX_BODY_BYTES + extra)
        async with faulty_http(always(reply(body))) as server, models_at(server.url) as model:
            if extra:
                assert "larger than" in (await fault_of(model)).message
            else:
                assert (await model.complete(REQUEST, 100.0)).reply.text == "YES"

    @pytest.mark.parametrize("encoding", ["gzip", "br"])
    async def test_what_is_compressed_was_paid_for_and_is_not_asked_for_again(self, encoding: str):
        packed = reply(completion(), "200 OK", f"Content-Encoding: {encoding}")
        async with faulty_http(always(packed)) as server, models_at(server.url) as model:
            fault = await fault_of(model)
        assert "compressed" in fault.message
        assert (fault.retryable, len(server.requests)) == (False, 1)


@pytest.mark.parametrize("counted", [{"prompt_tokens": 2**62}, {"completion_tokens": 10**6}])
async def test_a_count_of_tokens_that_can_not_be_is_no_count(counted: dict[str, int]):
    body = json.loads(completion())
    body["usage"] |= counted
    async with (
        faulty_http(always(reply(json.dumps(body).encode()))) as server,
        models_at(server.url) as model,
    ):
        done = await model.complete(REQUEST, 100.0)
    assert done.reply.usage == TokenUsage()
