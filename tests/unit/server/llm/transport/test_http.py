"""The good cases; what goes wrong is in tests/faults."""

from __future__ import annotations

from judged_server.llm.config import ProviderConfiguration
from judged_server.llm.transport.http import HttpTransport

from tests.fakes.providers.faulty_http import always, faulty_http, reply


async def test_sends_what_it_is_given_and_returns_what_comes():
    answer = reply(b"{}", "418 Teapot", "Retry-After: 3")
    async with faulty_http(always(answer)) as server:
        transport = HttpTransport(ProviderConfiguration("p", f"{server.url}/base"))
        got = await transport.post("/chat", {"X-Key": "k"}, b'{"a":1}', 5.0)
        await transport.close()
    assert (got.status, got.body, got.retry_after) == (418, b"{}", "3")
    [request] = server.requests
    head, _, body = request.partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    assert first == "POST /base/chat HTTP/1.1"
    assert body == b'{"a":1}'
    sent = {name.lower(): value for name, value in (field.split(": ") for field in fields)}
    assert sent["x-key"] == "k"
    assert sent["user-agent"] == "judged"
    assert sent["accept-encoding"] == "identity"
    assert "cookie" not in sent
