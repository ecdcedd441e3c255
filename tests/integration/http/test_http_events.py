"""ScoreAnswers as server-sent events: in their order, and how a stream ends before its summary."""

from __future__ import annotations

import asyncio
import http.client
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, ScriptedProvider
from tests.integration.http_calls import connect, http_address
from tests.integration.llm_config import llm_config
from tests.integration.server_process import running_server, until
from tests.integration.tenant_files import new_token, tenants

Event = tuple[str, dict[str, Any]]


async def answer(asked: Asked) -> dict[str, str]:
    if "slow" in asked.user:
        await asyncio.Event().wait()
    return {"reasoning": "so it is", "verdict": "yes"}


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with provider_on_a_thread(answer) as provider:
        yield provider


@pytest.fixture
def flags(provider: ScriptedProvider, tmp_path: Path) -> list[str]:
    config = llm_config(tmp_path, provider)
    tokens = tmp_path / "tenants.toml"
    tokens.write_text("[tenants.a]\n[tenants.b]\n")
    return [
        "--http-listen",
        "127.0.0.1:0",
        "--llm-config",
        config,
        "--llm-cache",
        "off",
        "--tenants",
        str(tokens),
        "--grace-s",
        "0.2",
    ]


def request(*answers: str, **more: object) -> bytes:
    items = [
        {"item_id": str(n), "query": "q", "answer": answer, "references": ["so"]}
        for n, answer in enumerate(answers)
    ]
    return json.dumps({"rubrics": [{"rubric": "answer_match"}], "items": items, **more}).encode()


class Stream:
    """A call whose events are read one after the other."""

    def __init__(self, address: str, token: str, body: bytes) -> None:
        self.connection = connect(address)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        self.connection.request("POST", "/v1/ScoreAnswers", body, headers)
        self.reply: http.client.HTTPResponse = self.connection.getresponse()

    def __iter__(self) -> Iterator[Event]:
        lines: list[str] = []
        while line := self.reply.readline().decode():
            if line != "\n":
                lines.append(line.rstrip("\n"))
                continue
            fields = dict(each.split(": ", 1) for each in lines)
            lines = []
            yield fields["event"], json.loads(fields["data"])

    def close(self) -> None:
        self.reply.close()
        self.connection.close()


def test_a_stream_from_its_start_to_its_ends(
    flags: list[str], provider: ScriptedProvider, tmp_path: Path
):
    path = tmp_path / "tenants.toml"
    a, b = new_token(path, "a"), new_token(path, "b")
    with running_server(*flags) as server:
        address = http_address(server)
        whole = Stream(address, b, request("yes", "also"))
        assert whole.reply.status == 200
        assert whole.reply.headers["content-type"] == "text/event-stream"
        names, parts = zip(*whole, strict=True)
        assert names == ("started", "score", "score", "summary")
        assert {part["score"]["item_id"] for part in parts[1:3]} == {"0", "1"}
        assert parts[3]["summary"]["rubrics"][0]["counts"]["passed"] == "2"
        whole.close()

        refused = Stream(address, b, b"{}")  # before the first event it has a status of its own
        assert refused.reply.status == 400
        assert json.loads(refused.reply.read())["code"] == 3
        refused.close()

        later = Stream(address, b, request("yes", asking={"max_cost": 1}))
        names, parts = zip(*later, strict=True)
        assert names == ("started", "error")
        assert parts[1]["code"] == 3
        assert "the model has no prices" in parts[1]["message"]
        later.close()

        left = Stream(address, b, request("slow", "yes"))
        events = iter(left)
        assert next(events)[0] == "started"
        assert next(events)[1]["score"]["item_id"] == "1"  # as it is done, not in order
        until(lambda: provider.in_flight == 1)
        left.close()
        until(lambda: provider.in_flight == 0)

        revoked, drained = (Stream(address, token, request("slow")) for token in (a, b))
        ends = [iter(stream) for stream in (revoked, drained)]
        assert [next(events)[0] for events in ends] == ["started", "started"]
        assert tenants(path, "revoke", "a").returncode == 0
        name, status = next(ends[0])
        assert (name, status["code"]) == ("error", 16)
        assert next(ends[0], None) is None
        server.process.send_signal(signal.SIGTERM)
        name, status = next(ends[1])
        assert (name, status["code"]) == ("error", 14)
        assert status["details"][0]["reason"] == "DRAINING"
        assert next(ends[1], None) is None
        assert server.process.wait(30) == 0
        for stream in (revoked, drained):
            stream.close()
        assert "bug" not in server.log_text()
