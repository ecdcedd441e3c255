"""Our JSON against the types of the `anthropic` package, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic.lib._parse._transform import transform_schema
from anthropic.types import Message
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.chat import ChatReply, FinishReason, TokenUsage
from judged_server.llm.config.configured import (
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
)
from judged_server.llm.providers.anthropic import DIALECT, headers, read_reply, write_request
from judged_server.llm.rubrics.loading import load_builtin
from pydantic import ConfigDict, SecretStr, TypeAdapter, ValidationError, with_config

from tests.fakes.providers.recording_http import recording_http
from tests.unit.server.llm.providers.verdict_request import SCHEMA, asks

with_config(ConfigDict(extra="forbid"))(MessageCreateParamsNonStreaming)
ORACLE: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsNonStreaming)
MEANS = DIALECT.capabilities.structured


def model(means: Structured = Structured.JSON_SCHEMA, **changes: Any) -> ModelConfiguration:
    return ModelConfiguration(
        "m", "p", "claude-sonnet-5", means, **{"send_temperature": False, **changes}
    )


def whole(*blocks: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A reply as the API documents it."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": list(blocks) or [text("YES")],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": {
            "input_tokens": 12,
            "output_tokens": 3,
            "cache_creation_input_tokens": 5,
            "cache_read_input_tokens": 7,
            "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1h_input_tokens": 0},
            "service_tier": "standard",
        },
        **changes,
    }


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said, "citations": None}


def call(**arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "verdict", "input": arguments}


THOUGHT = {"type": "thinking", "thinking": "Hm. It says NO.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "ZGF0YQ=="}
REFUSED = {"type": "refusal", "category": "bio", "explanation": "It could do harm."}


def read(reply: Any) -> ChatReply:
    return read_reply(200, json.dumps(reply).encode())


def by_the_oracle(reply: dict[str, Any]) -> ChatReply:
    """The same reply, read by Anthropic's own types."""
    parsed = Message.model_validate(reply, strict=True)
    ends = {
        "end_turn": "STOP",
        "stop_sequence": "STOP",
        "tool_use": "STOP",
        "max_tokens": "LENGTH",
        "model_context_window_exceeded": "LENGTH",
        "refusal": "REFUSAL",
        "pause_turn": "OTHER",
    }
    calls = [_compact(block.input) for block in parsed.content if block.type == "tool_use"]
    said = "".join(block.text for block in parsed.content if block.type == "text")
    usage = parsed.usage
    spent = (
        usage.input_tokens,
        usage.cache_creation_input_tokens or 0,
        usage.cache_read_input_tokens or 0,
    )
    return ChatReply(
        calls[0] if calls else said,
        FinishReason[ends[parsed.stop_reason or ""]],
        TokenUsage(sum(spent), usage.output_tokens),
        parsed.model,
        parsed.stop_details.explanation if parsed.stop_details else None,
    )


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class TestRequests:
    @pytest.mark.parametrize("means", MEANS)
    @pytest.mark.parametrize("schema", [None, SCHEMA])
    def test_are_what_anthropic_takes(self, means, schema):
        body = write_request(model(means), asks(schema=schema))
        taken = ORACLE.validate_python(body)
        lists = {name: list(taken[name]) for name in ("messages", "tools") if name in taken}
        assert {**taken, **lists} == body
        assert body["max_tokens"] == 50
        assert not {"seed", "logprobs", "temperature"} & set(body)

    def test_the_oracle_refuses_what_anthropic_does(self):
        with pytest.raises(ValidationError):
            ORACLE.validate_python(write_request(model(), asks()) | {"max_tokenz": 3})

    def test_a_temperature_is_sent_where_the_operator_says_so(self):
        body = write_request(model(send_temperature=True), asks(temperature=0.5))
        assert body.pop("temperature") == 0.5
        assert body == write_request(model(), asks())
        with pytest.raises(ValidationError):  # the reason why that is not the default
            ORACLE.validate_python(body | {"temperature": 0.5})

    def test_texts_stand_in_their_places(self):
        body = write_request(model(), asks())
        assert body["system"] == "You judge."
        assert body["messages"] == [{"role": "user", "content": "Is it so?"}]

    def test_hold_the_reply_to_the_schema_by_the_means_of_the_model(self):
        [tool] = write_request(model(Structured.TOOL), asks())["tools"]
        assert tool["input_schema"] == SCHEMA.schema
        choice = write_request(model(Structured.TOOL), asks())["tool_choice"]
        assert choice == {"type": "tool", "name": "verdict", "disable_parallel_tool_use": True}
        plain = write_request(model(Structured.NONE), asks())
        assert not {"output_config", "tools", "tool_choice"} & set(plain)

    def test_a_schema_is_sent_without_what_structured_outputs_refuse(self):
        body = write_request(model(), asks())
        held = body["output_config"]["format"]
        assert held["type"] == "json_schema"
        fields = held["schema"]["properties"]
        assert fields["score"] == {"type": "number"}
        assert fields["claims"] == {"type": "array", "items": {"type": "string"}}
        assert held["schema"]["required"] == SCHEMA.schema["required"]
        assert held["schema"]["additionalProperties"] is False

    @pytest.mark.parametrize("rubric", load_builtin().values(), ids=lambda rubric: rubric.id)
    def test_schemas_of_rubrics_are_cut_as_the_package_cuts_them(self, rubric):
        for step in rubric.steps:
            body = write_request(model(), asks(schema=step.schema))
            theirs = transform_schema(json.loads(json.dumps(step.schema.schema)))
            assert body["output_config"]["format"]["schema"] == _plain(theirs)

    async def test_are_what_the_sdk_sends(self):
        async with (
            recording_http(lambda _: (200, whole())) as server,
            AsyncAnthropic(api_key="k", base_url=server.url) as sdk,
        ):
            for means in MEANS:
                body = write_request(model(means), asks())
                reply = await sdk.messages.create(**body)
                noted = server.noted[-1]
                assert noted.body == json.loads(json.dumps(body))
                assert by_the_oracle(reply.model_dump()) == read(whole())
        assert noted.path == "/v1" + DIALECT.path(model())
        # The package has come to send a key as a bearer; the API takes it either way.
        ours = headers(ProviderConfiguration("p", "u", auth="bearer"), SecretStr("k"))
        sent = {name.lower(): value for name, value in noted.headers.items()}
        # An older version of the API, which every model and every gateway still knows.
        assert sent.pop("anthropic-version") == "2026-10-21"
        assert {name: sent[name.lower()] for name in ours if name != "anthropic-version"} == {
            name: value for name, value in ours.items() if name != "anthropic-version"
        }


def _plain(schema: Any) -> Any:
    """A schema of the package without the descriptions that it writes bounds into.

    It also leaves out the type beside an enum, which says nothing more.
    """
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _plain(value) for key, value in schema.items() if key != "description"}
    if "enum" in kept:
        kept["type"] = "string"
    return kept


class TestHeaders:
    def test_without_a_key(self):
        fields = headers(ProviderConfiguration("p", "u", auth="x-api-key"), None)
        assert fields["anthropic-version"] == "2023-06-01"
        assert not {"x-api-key", "Authorization"} & set(fields)

    def test_the_key(self):
        fields = headers(ProviderConfiguration("p", "u", auth="x-api-key"), SecretStr("k"))
        assert fields["x-api-key"] == "k"
        assert "Authorization" not in fields

    def test_bearer(self):
        fields = headers(ProviderConfiguration("p", "u", auth="bearer"), SecretStr("k"))
        assert fields["Authorization"] == "Bearer k"
        assert "x-api-key" not in fields


class TestReplies:
    @pytest.mark.parametrize(
        "reply",
        [
            whole(),
            whole(call(verdict="yes", reasoning="é\n"), stop_reason="tool_use"),
            whole(text("Let me see."), call(verdict="no"), stop_reason="tool_use"),
            whole(THOUGHT, HIDDEN, text("{"), text("}")),
            whole(stop_reason="max_tokens"),
            whole(THOUGHT, stop_reason="max_tokens"),
            whole(stop_reason="model_context_window_exceeded"),
            whole(stop_reason="stop_sequence", stop_sequence="END"),
            whole(stop_reason="pause_turn"),
            whole(content=[], stop_reason="refusal"),
            whole(text("I can"), stop_reason="refusal", stop_details=REFUSED),
            whole(usage={"input_tokens": 1, "output_tokens": 2}),
            whole(
                usage={
                    "input_tokens": 1,
                    "output_tokens": 2,
                    "cache_creation_input_tokens": None,
                    "cache_read_input_tokens": 3,
                }
            ),
        ],
    )
    def test_are_read_as_anthropic_reads_them(self, reply):
        assert read(reply) == by_the_oracle(reply)

    @given(
        said=st.lists(st.text(), max_size=3),
        end=st.sampled_from(["end_turn", "max_tokens", "tool_use", "refusal", "pause_turn"]),
        arguments=st.none() | st.dictionaries(st.text(), st.text() | st.booleans(), max_size=3),
        spent=st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)),
    )
    def test_any_of_the_package_s_own_are_read(self, said, end, arguments, spent):
        blocks = [text(piece) for piece in said]
        if arguments is not None:
            blocks.append(call() | {"input": arguments})
        usage = {"input_tokens": spent[0], "output_tokens": spent[1]}
        built = Message.model_validate(whole(content=blocks, stop_reason=end, usage=usage))
        got = read_reply(200, built.model_dump_json().encode())
        assert (got.usage.input_tokens, got.usage.output_tokens) == spent
        if arguments is None:
            assert got.text == "".join(said)
        else:
            assert json.loads(got.text) == arguments

    def test_unknown_fields_and_missing_extras_do_not_matter(self):
        bare = {"content": [{"type": "new_kind", "x": 1}, {"type": "text", "text": "NO"}], "y": {}}
        assert read(bare) == ChatReply(
            *("NO", FinishReason.UNTOLD, TokenUsage(), ""),
            left_out=("a part of its content has another type than text",),
        )

    @pytest.mark.parametrize(
        "reply",
        [
            None,
            [],
            {},
            {"content": None},
            {"content": [None]},
            {"content": [{"type": "text"}]},
            {"content": [{"type": "text", "text": 5}]},
            {"content": [{"type": "tool_use", "input": "{}"}]},
            {"type": "error", "error": {"type": "overloaded_error", "message": "canary"}},
        ],
    )
    def test_that_lack_something_are_faults(self, reply):
        unreadable = read(reply).unreadable
        assert unreadable
        assert "canary" not in unreadable

    def test_arguments_that_nest_too_deeply_are_a_fault(self):
        nested = b'{"content":[{"type":"tool_use","input":{"a":' + b"[" * 400 + b"]" * 400 + b"}}]}"
        assert "too deeply" in read_reply(200, nested).unreadable

    def test_arguments_that_say_something_twice_are_a_fault(self):
        twice = b'{"content":[{"type":"tool_use","input":{"verdict":"no","verdict":"yes"}}]}'
        assert "a key twice" in read_reply(200, twice).unreadable
