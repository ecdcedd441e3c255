from __future__ import annotations

import asyncio
from typing import Any

import pytest
from judged_server.errors import ModelNotConfigured
from judged_server.llm.chat import ChatRequest, FinishReason, Prices, ReplySchema, TokenUsage
from judged_server.llm.configuration import parse_configuration
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.models import ChatModels
from judged_server.settings import SettingsError

from tests.fakes.scripted_provider import Answer, ScriptedProvider, scripted_provider
from tests.fakes.still_clock import StillClock

SCHEMA = ReplySchema("verdict", {"type": "object", "properties": {"verdict": {"type": "string"}}})


def question(user: str = "?", **changes: Any) -> ChatRequest:
    return ChatRequest("judge", user, SCHEMA, 20, 0.0, **changes)


def models_of(provider: ScriptedProvider, clock: Any = None, **keys: Any) -> ChatModels:
    document = provider.configuration()
    document["providers"][0] |= keys
    return ChatModels(parse_configuration(document, "f"), {"KEY": "k"}, clock)


@pytest.mark.parametrize("structured", ["json_schema", "json_object", "tool", "none"])
async def test_a_question_and_its_answer(structured):
    async with scripted_provider(lambda asked: {"verdict": asked.user}) as provider:
        document = provider.configuration(
            structured=structured, input_per_million=1, output_per_million=2
        )
        models = ChatModels(parse_configuration(document, "f"), {})
        model = models.get("scripted")
        done = await model.complete(question("yes"), 10.0)
        await models.close()
    assert done.reply.text == '{"verdict": "yes"}'
    assert done.reply.finish_reason is FinishReason.STOP
    assert done.reply.model == "scripted-1-2024-07-18"
    assert done.reply.usage == TokenUsage(3, 5)
    assert done.attempts == 1
    assert 0 < done.latency_s < 10
    assert model.card.structured is (structured != "none")
    assert model.card.prices == Prices(1.0, 2.0)


async def test_a_key_opens_the_door_and_another_does_not():
    async with scripted_provider(lambda _: "{}", key="k") as provider:
        good = models_of(provider, key_env="KEY")
        assert (await good.get("").complete(question(), 10.0)).reply.text == "{}"
        await good.close()
        without = models_of(provider)
        with pytest.raises(ProviderFault) as caught:
            await without.get("").complete(question(), 10.0)
        assert caught.value.reason is Reason.PROVIDER_REFUSED_KEY
        await without.close()


async def test_no_more_calls_at_once_than_allowed():
    async with scripted_provider(lambda _: Answer("{}", delay_s=0.002)) as provider:
        models = models_of(provider, max_concurrency=5)
        model = models.get("")
        await asyncio.gather(*(model.complete(question(), 30.0) for _ in range(60)))
        await models.close()
    assert (provider.most_in_flight, provider.requests) == (5, 60)


async def test_a_call_that_finds_no_room_in_its_time_is_not_sent():
    asked, release = asyncio.Event(), asyncio.Event()

    async def wait(_: Any) -> str:
        asked.set()
        await release.wait()
        return "{}"

    async with scripted_provider(wait) as provider:
        models = models_of(provider, max_concurrency=1)
        model = models.get("")
        first = asyncio.create_task(model.complete(question(), 30.0))
        await asked.wait()
        with pytest.raises(ProviderFault, match="max_concurrency is used up") as caught:
            await model.complete(question(), 0.02)
        assert (caught.value.reason, caught.value.attempts) == (Reason.TIMEOUT, 0)
        release.set()
        await first
        await models.close()
    assert provider.requests == 1


async def test_rates_hold_calls_back_and_refuse_those_that_can_not_wait():
    clock = StillClock()
    async with scripted_provider(lambda _: "{}") as provider:
        models = models_of(provider, clock, requests_per_minute=6)
        model = models.get("")
        for _ in range(3):
            await model.complete(question(), 60.0)
        assert clock.slept == [10.0, 10.0]
        with pytest.raises(ProviderFault, match="requests_per_minute") as caught:
            await model.complete(question(), 5.0)
        assert (caught.value.reason, caught.value.attempts) == (Reason.RATE_LIMITED, 0)
        assert caught.value.retryable
        await models.close()
    assert provider.requests == 3


async def test_tokens_that_were_not_used_are_given_back():
    clock = StillClock()
    async with scripted_provider(lambda _: "{}") as provider:
        models = models_of(provider, clock, tokens_per_minute=6000)
        model = models.get("")
        for _ in range(5):  # about 80 tokens each by estimate, 4 by the provider's own count
            await model.complete(question(), 60.0)
        await models.close()
    assert clock.slept == []


async def test_models_are_listed_the_default_first_and_found_by_name():
    provider = {"name": "p", "base_url": "https://p.test/v1"}
    locked = {"name": "q", "base_url": "https://q.test/v1", "key_env": "Q_KEY"}
    named = [
        {"name": "a", "provider": "q", "model": "x"},
        {"name": "b", "provider": "p", "model": "y", "default": True},
    ]
    document = {"providers": [provider, locked], "models": named}
    models = ChatModels(parse_configuration(document, "f"), {})
    assert [(listed.card.name, bool(listed.problem)) for listed in models.listed] == [
        ("b", False),
        ("a", True),
    ]
    assert models.get("").card.name == models.get("b").card.name == "b"
    with pytest.raises(ModelNotConfigured, match="variable Q_KEY is not set"):
        models.get("a")
    with pytest.raises(ModelNotConfigured, match="'c' can't be asked: this server knows b, a"):
        models.get("c")
    await models.close()


async def test_a_ca_file_that_holds_none_stops_the_start(tmp_path):
    (tmp_path / "ca.pem").write_text("no certificate")
    for name in ("ca.pem", "none.pem"):
        provider = {"name": "p", "base_url": "https://p.test/v1", "ca_file": str(tmp_path / name)}
        named = [{"name": "m", "provider": "p", "model": "x"}]
        document = parse_configuration({"providers": [provider], "models": named}, "f")
        with pytest.raises(SettingsError, match=r"provider p: ca_file .* holds no certificates"):
            ChatModels(document, {})


async def test_models_of_a_file(tmp_path):
    path = tmp_path / "llm.toml"
    path.write_text(
        '[[providers]]\nname = "p"\nbase_url = "http://localhost:1/v1"\n'
        '[[models]]\nname = "m"\nprovider = "p"\nmodel = "x"\n'
    )
    models = ChatModels.load(path, {})
    assert models.get("").card.model == "x"
    assert models.currency == "USD"
    await models.close()
