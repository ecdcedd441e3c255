"""Ready systems against servers that speak as the real ones do, and that misbehave."""

from __future__ import annotations

import asyncio
import json
import re
import time
from urllib.request import Request, urlopen

import pytest
from judged.evaluation import systems
from judged.evaluation.systems.chat_http import MAX_REPLY_BYTES, ChatFailed, check_url
from judged.evaluation.systems.chat_servers import INSTRUCTIONS, prompt_of

from tests.fakes.chat_servers import KEY, ChatServers, chat_servers
from tests.fakes.faulty_http import Connection, faulty_http


def provider_on_a_thread(script):
    """Start a provider, where what it is made of is installed."""
    pytest.importorskip("aiohttp")
    from tests.fakes.provider_thread import provider_on_a_thread as start

    return start(script)


CHAT_REPLY = json.dumps({"message": {"content": "fine"}}).encode()


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, KEY)


@pytest.fixture(scope="module")
def servers():
    with chat_servers() as running:
        yield running


def made(servers: ChatServers) -> dict[str, systems.ChatSystem]:
    return {
        "ollama": systems.ollama(base_url=servers.url),
        "anthropic": systems.anthropic("claude", base_url=f"{servers.url}/v1"),
        "gemini": systems.gemini("gemini-flash", base_url=f"{servers.url}/v1beta"),
    }


class TestDialects:
    @pytest.mark.parametrize("kind", ["ollama", "anthropic", "gemini"])
    def test_the_answer_and_what_it_took(self, servers: ChatServers, kind: str):
        answer = made(servers)[kind]("what is RAG")
        assert answer.text == f"{kind} heard: what is RAG"
        assert answer.contexts is None
        tokens = {"ollama": (26, 298), "anthropic": (10, 20), "gemini": (3, 4)}[kind]
        assert (answer.metadata["input_tokens"], answer.metadata["output_tokens"]) == tokens
        ended = {"ollama": "stop", "anthropic": "end_turn", "gemini": "STOP"}[kind]
        assert answer.metadata["finish_reason"] == ended

    def test_our_fakes_answer_in_the_shapes_of_the_packages(self, servers: ChatServers):
        anthropic = pytest.importorskip("anthropic.types")
        google = pytest.importorskip("google.genai.types")

        def ask(path: str, body: object, **headers: str) -> bytes:
            sent = Request(  # noqa: S310 - to ourselves
                servers.url + path, json.dumps(body).encode(), {**headers}, method="POST"
            )
            with urlopen(sent, timeout=5) as reply:  # noqa: S310 - to ourselves
                return reply.read()

        messages = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]}
        versions = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
        raw = ask("/v1/messages", messages, **versions)
        reply = anthropic.Message.model_validate_json(raw, strict=True)
        assert reply.usage.output_tokens == 20
        contents = {"contents": [{"parts": [{"text": "x"}]}], "generationConfig": {}}
        raw = ask("/v1beta/models/m:generateContent", contents, **{"x-goog-api-key": KEY})
        assert google.GenerateContentResponse.model_validate_json(raw).text == "gemini heard: x"

    def test_passages_are_numbered_before_the_question(self, servers: ChatServers):
        system = made(servers)["ollama"]
        said = system("why", contexts=["one", "two"]).text
        assert said == "ollama heard: Passages:\n\n[1] one\n\n[2] two\n\nQuestion: why"
        assert prompt_of("why", []) == "why"
        assert servers.bodies[-1]["messages"][0] == {
            "role": "system",
            "content": INSTRUCTIONS,
        }
        assert servers.bodies[-1]["options"] == {"temperature": 0.1, "num_predict": 1024}

    def test_no_temperature_where_none_is_wanted(self, servers: ChatServers):
        systems.anthropic("m", base_url=f"{servers.url}/v1", temperature=None)("q")
        assert "temperature" not in servers.bodies[-1]

    @pytest.mark.parametrize(
        ("kind", "limit"),
        [
            ("openai", "max_completion_tokens"),
            ("vllm", "max_tokens"),
            ("llama_cpp", "max_tokens"),
        ],
    )
    def test_chat_completions(self, kind: str, limit: str):
        with provider_on_a_thread(lambda asked: asked.user.upper()) as provider:
            system = getattr(systems, kind)("scripted-1", base_url=provider.base_url)
            answer = system("what is rag")
        assert answer.text == "WHAT IS RAG"
        assert answer.metadata["model"] == "scripted-1-2024-07-18"
        body = provider.asked[0].body
        assert body[limit] == 1024
        assert body["temperature"] == 0.1
        assert body["messages"][0]["role"] == "system"

    def test_a_refusal_is_what_the_model_said(self):
        def refuse(_: object) -> object:
            from tests.fakes.scripted_provider import Answer

            return Answer("", refusal="I can't.")

        with provider_on_a_thread(refuse) as provider:
            assert systems.openai("scripted-1", base_url=provider.base_url)("q").text == "I can't."

    def test_keys_travel_where_they_belong(self):
        with provider_on_a_thread(lambda _: "fine") as provider:
            provider.key = KEY
            assert systems.openai("scripted-1", base_url=provider.base_url)("q").text == "fine"
            local = systems.vllm("scripted-1", base_url=provider.base_url)
            with pytest.raises(ChatFailed, match="status 401: Incorrect API key provided"):
                local("q")

    def test_what_holds_no_text_is_a_failure(self, servers: ChatServers):
        gemini = made(servers)["gemini"]
        with pytest.raises(ChatFailed, match="the prompt was blocked: SAFETY"):
            gemini("block me")
        with pytest.raises(ChatFailed, match=r"holds no text \(finish reason: STOP\)"):
            gemini("say nothing")


class TestSignature:
    def test_says_all_that_changes_answers(self):
        base = systems.ollama()
        assert base.signature.startswith(
            "ollama|model:phi3:mini|temperature:0.1|max_tokens:1024|at:127.0.0.1:11434|"
        )
        others = [
            systems.ollama("llama3"),
            systems.ollama(temperature=0),
            systems.ollama(max_tokens=9),
            systems.ollama(instructions="Be brief."),
            systems.ollama(base_url="http://127.0.0.1:1"),
        ]
        assert len({system.signature for system in [base, *others]}) == 6


class TestKeys:
    def test_a_missing_key_is_known_when_the_system_is_made(self, monkeypatch):
        monkeypatch.delenv("OPENAI_API_KEY")
        with pytest.raises(ChatFailed, match="set the environment variable OPENAI_API_KEY"):
            systems.openai("m")
        monkeypatch.setenv("MY_KEY", "  ")
        with pytest.raises(ChatFailed, match="MY_KEY"):
            systems.anthropic("m", key_env="MY_KEY")

    def test_no_message_and_no_repr_holds_a_key(self, servers: ChatServers, monkeypatch):
        system = made(servers)["anthropic"]
        monkeypatch.setenv("ANTHROPIC_API_KEY", "wrong-key-456")
        with pytest.raises(ChatFailed) as caught:
            system("q")
        assert str(caught.value).endswith("status 401: invalid x-api-key ***")
        assert "wrong-key" not in repr(system) + repr(caught.value)

    def test_a_key_that_would_split_a_header_is_refused(self, monkeypatch):
        monkeypatch.setenv("GEMINI_API_KEY", "a\r\nX: y")
        with pytest.raises(ChatFailed, match="GEMINI_API_KEY holds what is no key"):
            systems.gemini("m")


class TestAddresses:
    @pytest.mark.parametrize(
        "url",
        ["http://localhost:1", "http://127.8.8.8", "http://[::1]:2", "https://example.org/v1/"],
    )
    def test_taken(self, url: str):
        assert check_url(url, "/x") == url.rstrip("/") + "/x"

    @pytest.mark.parametrize(
        ("url", "says"),
        [
            ("http://example.org", "use https"),
            ("http://10.0.0.7:80", "use https"),
            ("http://localhost.example.org", "use https"),
            ("ftp://localhost", "write it as"),
            ("file:///etc/passwd", "write it as"),
            ("localhost:80", "write it as"),
            ("https://user:secret@example.org", "keys go into key_env"),
            ("https://example.org/v1?key=secret", "keys go into key_env"),
        ],
    )
    def test_refused(self, url: str, says: str):
        with pytest.raises(ValueError, match=says) as caught:
            systems.ollama(base_url=url)
        assert "secret" not in str(caught.value)


def http(body: bytes, status: str = "200 OK", *headers: str, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    head = [f"HTTP/1.1 {status}", f"Content-Length: {size}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


async def failure_of(behaviour, seconds: float = 5.0) -> str:
    return (await failure_and_requests(behaviour, seconds))[0]


async def failure_and_requests(behaviour, seconds: float = 5.0) -> tuple[str, int]:
    async with faulty_http(behaviour) as server:
        system = systems.ollama(base_url=server.url, timeout=seconds)
        with pytest.raises(ChatFailed) as caught:
            await asyncio.to_thread(system, "q")
        return str(caught.value), len(server.requests)


class TestFaults:
    @pytest.mark.parametrize("place", range(0, len(http(CHAT_REPLY)), 7))
    async def test_a_reply_cut_at_any_place(self, place: int):
        async def cut(connection: Connection) -> None:
            await connection.send(http(CHAT_REPLY)[:place])

        # Cut within its headers, a reply looks like one that ends with the connection.
        says = "can't be reached, or broke off|the reply is not JSON"
        assert re.search(says, await failure_of(cut))

    @pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\n", http(b"{", length=99)])
    async def test_silence_ends_with_the_time_out(self, sent: bytes):
        async def hang(connection: Connection) -> None:
            await connection.send(sent)
            await connection.closed()

        assert "no answer within 0.2 s" in await failure_of(hang, 0.2)

    async def test_a_trickle_ends_with_the_time_out_too(self):
        async def trickle(connection: Connection) -> None:
            await connection.trickle(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 10_000, 0.02)

        started = time.monotonic()
        assert "no answer within 0.3 s" in await failure_of(trickle, 0.3)
        assert time.monotonic() - started < 2

    @pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
    async def test_no_redirect_is_followed(self, status: str):
        async def redirect(connection: Connection) -> None:
            await connection.send(http(b"", status, "Location: http://127.0.0.1:9/"))

        said, requests = await failure_and_requests(redirect)
        assert "redirects, which is not followed" in said
        assert requests == 1

    @pytest.mark.parametrize(
        ("body", "status", "says"),
        [
            (b"<html>", "200 OK", "is not JSON"),
            (b"[" * 100_000, "200 OK", "is not JSON"),
            (b"\xff", "200 OK", "is not JSON"),
            (b"[]", "200 OK", "holds no text"),
            (b'{"message": {"content": 3}}', "200 OK", "holds no text"),
            (b"<html>", "502 Bad Gateway", "status 502: no explanation"),
            (b'{"error": "model not found"}', "404 Not Found", "status 404: model not found"),
            (b'{"error": {"message": "slow\\ndown"}}', "429 Busy", "status 429: slow down"),
            (b'{"error": "' + b"x" * 9999 + b'"}', "500 No", "x" * 300),
        ],
    )
    async def test_what_is_no_answer(self, body: bytes, status: str, says: str):
        async def answer(connection: Connection) -> None:
            await connection.send(http(body, status))

        message = await failure_of(answer)
        assert says in message
        assert len(message) < 400

    async def test_a_reply_without_end_is_cut_off(self):
        async def flood(connection: Connection) -> None:
            await connection.send(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (MAX_REPLY_BYTES + 2))

        assert await failure_of(flood, 30) == "the reply is larger than 8 MiB"

    def test_nobody_there(self):
        with pytest.raises(ChatFailed, match=r"127\.0\.0\.1:1 can't be reached"):
            systems.ollama(base_url="http://127.0.0.1:1")("q")

    def test_proxies_of_the_environment_are_not_used(self, servers: ChatServers, monkeypatch):
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        monkeypatch.delenv("no_proxy", raising=False)
        assert made(servers)["ollama"]("q").text == "ollama heard: q"

    def test_a_provider_that_fails(self):
        def fail(_: object) -> object:
            from tests.fakes.scripted_provider import Failure

            return Failure(503)

        with provider_on_a_thread(fail) as provider:
            system = systems.openai("scripted-1", base_url=provider.base_url)
            with pytest.raises(ChatFailed, match="status 503: no"):
                system("q")
