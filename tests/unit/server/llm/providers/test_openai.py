"""Our JSON against the types of the `openai` package, both ways."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.chat import (
    ChatReply,
    ChatRequest,
    FinishReason,
    ProviderFault,
    Reason,
    ReplySchema,
    TokenLogprob,
    TokenUsage,
)
from judged_server.llm.config.configured import (
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
)
from judged_server.llm.providers.openai import headers, read_reply, write_request
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import ConfigDict, SecretStr, TypeAdapter, ValidationError, with_config

from tests.fakes.providers.scripted_provider import Answer, Asked, completion
from tests.unit.server.llm.providers.verdict_request import SCHEMA, asks

with_config(ConfigDict(extra="forbid"))(CompletionCreateParamsNonStreaming)
ORACLE: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsNonStreaming)
MODEL = ModelConfiguration("m", "p", "gpt-4o-mini")


def whole(**changes: Any) -> dict[str, Any]:
    """A reply as the API documents it."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "YES", "refusal": None, "annotations": []},
        "logprobs": {
            "content": [
                {
                    "token": "YES",
                    "logprob": -0.2,
                    "bytes": [89, 69, 83],
                    "top_logprobs": [
                        {"token": "YES", "logprob": -0.2, "bytes": None},
                        {"token": "NO", "logprob": -1.7, "bytes": None},
                    ],
                }
            ],
            "refusal": None,
        },
        "finish_reason": "stop",
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [choice],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
        "system_fingerprint": "fp_1",
        "service_tier": "default",
        **changes,
    }


def read(reply: Any) -> ChatReply:
    return read_reply(200, json.dumps(reply).encode())


def by_the_oracle(reply: dict[str, Any]) -> ChatReply:
    """The same reply, read by OpenAI's own types."""
    parsed = ChatCompletion.model_validate(reply)
    choice = parsed.choices[0]
    message = choice.message
    text = message.content or ""
    if message.tool_calls:
        call = message.tool_calls[0]
        assert call.type == "function"
        text = call.function.arguments
    ends = {"stop": "STOP", "tool_calls": "STOP", "length": "LENGTH", "content_filter": "SAFETY"}
    places = (choice.logprobs.content or []) if choice.logprobs else []
    usage = parsed.usage
    return ChatReply(
        text,
        FinishReason.REFUSAL if message.refusal else FinishReason[ends[choice.finish_reason]],
        TokenUsage(usage.prompt_tokens, usage.completion_tokens) if usage else TokenUsage(),
        parsed.model,
        message.refusal,
        parsed.system_fingerprint or "",
        tuple(
            TokenLogprob(
                place.token, tuple((other.token, other.logprob) for other in place.top_logprobs)
            )
            for place in places
        ),
    )


class TestRequests:
    @pytest.mark.parametrize("means", list(Structured))
    @pytest.mark.parametrize("seed", [None, 11])
    @pytest.mark.parametrize("schema", [None, SCHEMA])
    @pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
    @pytest.mark.parametrize("on", [True, False])
    def test_are_what_openai_takes(self, means, seed, schema, limit, on):
        model = ModelConfiguration("m", "p", "gpt", means, on, limit, on, on)
        body = write_request(model, asks(seed=seed, schema=schema))
        taken = ORACLE.validate_python(body)
        # Lists are checked when they are read, and what a type does not know is left out.
        lists = {name: list(taken[name]) for name in ("messages", "tools") if name in taken}
        assert {**taken, **lists} == body
        assert body[limit] == 50
        assert ("temperature" in body, body.get("logprobs")) == (on, True if on else None)
        assert ("seed" in body) is (on and seed is not None)

    def test_the_oracle_refuses_what_openai_does(self):
        with pytest.raises(ValidationError):
            ORACLE.validate_python(write_request(MODEL, asks()) | {"max_tokenz": 3})

    @pytest.mark.parametrize("means", [Structured.JSON_SCHEMA, Structured.TOOL])
    def test_leave_bounds_out_where_they_are_refused(self, means):
        share = {"type": "number", "minimum": 0, "maximum": 1}
        claims = {"type": "array", "items": share, "maxItems": 9, "minItems": 1}
        properties = {"maximum": share, "claims": claims, "why": {"enum": ["a"]}}
        schema = {"type": "object", "properties": properties, "required": ["maximum"]}
        asked = ChatRequest("s", "u", ReplySchema("r", schema), 9, 0.0, None)

        def sent(*, bounds: bool) -> object:
            body = write_request(
                ModelConfiguration("m", "p", "x", means, schema_bounds=bounds), asked
            )
            if means is Structured.TOOL:
                return body["tools"][0]["function"]["parameters"]
            return body["response_format"]["json_schema"]["schema"]

        assert sent(bounds=True) == schema
        bare = {"type": "number"}
        assert sent(bounds=False) == schema | {
            "properties": {
                "maximum": bare,
                "claims": {"type": "array", "items": bare},
                "why": {"enum": ["a"]},
            }
        }

    def test_hold_the_reply_to_the_schema_by_the_means_of_the_model(self):
        def of(means: Structured) -> dict[str, Any]:
            return write_request(ModelConfiguration("m", "p", "gpt", means), asks())

        held = of(Structured.JSON_SCHEMA)["response_format"]["json_schema"]
        assert held == {"name": "verdict", "schema": SCHEMA.schema, "strict": True}
        assert of(Structured.JSON_OBJECT)["response_format"] == {"type": "json_object"}
        [tool] = of(Structured.TOOL)["tools"]
        assert tool["function"]["parameters"] == SCHEMA.schema
        assert of(Structured.TOOL)["tool_choice"]["function"] == {"name": "verdict"}
        assert not {"response_format", "tools"} & set(of(Structured.NONE))

    def test_texts_stand_in_their_roles(self):
        system, user = write_request(MODEL, asks())["messages"]
        assert system == {"role": "system", "content": "You judge."}
        assert user == {"role": "user", "content": "Is it so?"}


class TestHeaders:
    def test_without_a_key(self):
        assert "Authorization" not in headers(ProviderConfiguration("p", "http://localhost"), None)

    def test_bearer_organization_and_project(self):
        provider = ProviderConfiguration("p", "u", organization="org-1", project="proj-1")
        fields = headers(provider, SecretStr("k"))
        assert fields["Authorization"] == "Bearer k"
        assert (fields["OpenAI-Organization"], fields["OpenAI-Project"]) == ("org-1", "proj-1")

    def test_api_key(self):
        fields = headers(ProviderConfiguration("p", "u", auth="api-key"), SecretStr("k"))
        assert fields["api-key"] == "k"
        assert "Authorization" not in fields


TOOL_CALL = {"id": "c", "type": "function", "function": {"name": "verdict", "arguments": "{}"}}


def with_message(finish: str = "stop", **message: Any) -> dict[str, Any]:
    reply = whole()
    reply["choices"][0]["message"] |= message
    reply["choices"][0]["finish_reason"] = finish
    return reply


class TestReplies:
    @pytest.mark.parametrize(
        "reply",
        [
            whole(),
            whole(usage=None),
            whole(system_fingerprint=None),
            with_message("length"),
            with_message("content_filter", content=None),
            with_message("tool_calls", content=None, tool_calls=[TOOL_CALL]),
            with_message(content=None, refusal="I can't help with that."),
            with_message(content=""),
            whole(choices=[{**whole()["choices"][0], "logprobs": None}]),
        ],
    )
    def test_are_read_as_openai_reads_them(self, reply):
        assert read(reply) == by_the_oracle(reply)

    @given(
        text=st.text(),
        refusal=st.none() | st.text(min_size=1),
        finish=st.sampled_from(["stop", "length", "content_filter"]),
        asked=st.fixed_dictionaries({"logprobs": st.booleans()}),
    )
    def test_of_the_scripted_provider_are_read_as_openai_reads_them(
        self, text, refusal, finish, asked
    ):
        body = write_request(MODEL, asks()) | asked
        reply = completion(Asked(body, 0), Answer(text, finish, refusal))
        assert read(reply) == by_the_oracle(reply)

    def test_unknown_fields_and_missing_extras_do_not_matter(self):
        bare = {"choices": [{"message": {"content": "NO"}, "extra": [1]}], "more": {}}
        assert read(bare) == ChatReply("NO", FinishReason.UNTOLD, TokenUsage(), "")

    @pytest.mark.parametrize(
        "reply",
        [
            None,
            [],
            "text",
            {},
            {"choices": None},
            {"choices": []},
            {"choices": [None]},
            {"choices": {"0": {}}},
            {"choices": [{}]},
            {"choices": [{"message": None}]},
            {"choices": [{"message": "YES"}]},
            with_message(content=5),
            with_message(content=True),
            with_message(content=[{"type": "text", "text": 5}]),
            whole(error={"message": "upstream failed", "code": "502"}),
            with_message(tool_calls=[{}]),
            with_message(tool_calls=[{"function": {"name": "x"}}]),
            with_message(tool_calls="x"),
        ],
    )
    def test_that_lack_something_are_faults(self, reply):
        assert read(reply).unreadable

    @pytest.mark.parametrize(
        "body",
        [b"", b"{", b"\xff\xfe", b"[" * 100_000, b'{"choices": nan}', b"nul"],
    )
    def test_that_are_no_json_are_faults(self, body):
        assert "no JSON in place of a JSON object" in read_reply(200, body).unreadable

    @pytest.mark.parametrize("logprob", ["x", True, [1], 0.5])
    def test_log_probabilities_that_can_not_be_are_left_out(self, logprob):
        reply = whole()
        reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1]["logprob"] = logprob
        assert read(reply).logprobs == (TokenLogprob("YES", ()),)

    def test_a_place_without_its_token_leaves_none(self):
        reply = whole()
        reply["choices"][0]["logprobs"]["content"].append({"token": 5})
        got = read(reply)
        assert (got.text, got.logprobs, got.left_out) == ("YES", (), ("logprobs lacks a token",))


class TestErrors:
    def test_a_filtered_prompt_is_a_reply(self):
        body = b'{"error":{"code":"content_filter","message":"canary"}}'
        assert read_reply(400, body) == ChatReply("", FinishReason.SAFETY, TokenUsage(), "")

    @pytest.mark.parametrize("field", ['"reasons":["violence"]', '"flagged_input":"canary"'])
    def test_a_prompt_that_openrouter_s_moderation_flags_is_a_refusal(self, field):
        body = b'{"error":{"code":403,"message":"canary","metadata":{%b}}}' % field.encode()
        assert read_reply(403, body) == ChatReply("", FinishReason.SAFETY, TokenUsage(), "")

    @pytest.mark.parametrize("metadata", [b"{}", b"[]", b'"reasons"', b"null"])
    def test_other_403s_are_not(self, metadata):
        with pytest.raises(ProviderFault) as caught:
            read_reply(403, b'{"error":{"code":403,"metadata":%b}}' % metadata)
        assert caught.value.reason is Reason.PROVIDER_REFUSED_KEY


def test_the_sdk_and_we_get_the_same_from_the_scripted_provider():
    """One server, asked by the `openai` package with our request, answers both of us alike."""
    from openai import AsyncOpenAI

    from tests.fakes.providers.scripted_provider import scripted_provider

    async def ask() -> None:
        async with scripted_provider(lambda _: {"verdict": "yes"}, key="k") as provider:
            async with AsyncOpenAI(api_key="k", base_url=provider.base_url) as sdk:
                model = ModelConfiguration("m", "p", "scripted-1", logprobs=True)
                theirs = await sdk.chat.completions.create(**write_request(model, asks()))
            assert read(theirs.model_dump(mode="json")) == by_the_oracle(theirs.model_dump())
            assert read(theirs.model_dump(mode="json")).text == '{"verdict": "yes"}'

    asyncio.run(ask())
