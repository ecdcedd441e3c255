"""Our JSON against the types of the vendors' packages, both ways, and against what they send."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from anthropic import AsyncAnthropic
from anthropic.lib._parse._transform import transform_schema
from anthropic.types import Message
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from google import genai
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.chat import (
    ChatReply,
    ChatRequest,
    FinishReason,
    ReplySchema,
    TokenUsage,
)
from judged_server.llm.config import (
    CAPABILITIES,
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
)
from judged_server.llm.providers.dialects import DIALECTS
from judged_server.llm.rubrics.rubric import load_builtin
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import ConfigDict, SecretStr, TypeAdapter, ValidationError, with_config

from tests.fakes.providers.raw_provider import raw_provider

Json = dict[str, Any]

SCHEMA = ReplySchema(
    "verdict",
    {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "verdict": {"type": "string", "enum": ["yes", "no"]},
            "score": {"type": "number", "minimum": 0, "maximum": 1},
            "claims": {"type": "array", "items": {"type": "string", "maxLength": 9}, "maxItems": 5},
        },
        "required": ["reasoning", "verdict", "score", "claims"],
        "additionalProperties": False,
    },
)
ASKS = ChatRequest("You judge.", "Is it so?", SCHEMA, 50, 0.25, 11)

for forbids in (CompletionCreateParamsNonStreaming, MessageCreateParamsNonStreaming):
    with_config(ConfigDict(extra="forbid"))(forbids)
GEMINI_PARTS = {
    "systemInstruction": types.Content,
    "contents": list[types.Content],
    "generationConfig": types.GenerationConfig,
}


def model(
    dialect: str, means: Structured = Structured.JSON_SCHEMA, *, on: bool = True, **more: Any
) -> ModelConfiguration:
    """A model of a dialect whose quirks are all on, or all off."""
    quirks = dict.fromkeys(("send_temperature", "send_seed"), on)
    if dialect == "anthropic":
        quirks["send_temperature"] = False
    return ModelConfiguration("m", "p", "m-1", means, **{**quirks, **more})


def written(dialect: str, request: ChatRequest = ASKS, **of: Any) -> Json:
    return DIALECTS[dialect].write_request(model(dialect, **of), request)


def read(dialect: str, reply: Any) -> ChatReply:
    raw = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
    return DIALECTS[dialect].read_reply(200, raw)


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def typed(params: Any) -> Callable[[Json], Json]:
    """Return what a package's typed dictionary takes of a body; it raises for what it does not."""
    adapter: TypeAdapter[Any] = TypeAdapter(params)

    def take(body: Json) -> Json:
        taken = adapter.validate_python(body)
        # Lists are checked when they are read.
        return {**taken, "messages": list(taken["messages"])}

    return take


def gemini_takes(body: Json) -> Json:
    """Return each part of a request, read by the package's strict types and written again."""
    return {
        name: TypeAdapter(GEMINI_PARTS[name]).dump_python(
            TypeAdapter(GEMINI_PARTS[name]).validate_python(part),
            mode="json",
            by_alias=True,
            exclude_none=True,
        )
        for name, part in body.items()
    }


TAKES = {
    "openai": typed(CompletionCreateParamsNonStreaming),
    "anthropic": typed(MessageCreateParamsNonStreaming),
    "gemini": gemini_takes,
}


def openai_reads(reply: Json) -> ChatReply:
    parsed = ChatCompletion.model_validate(reply)
    choice, usage = parsed.choices[0], parsed.usage
    message = choice.message
    ends = {"stop": "STOP", "length": "LENGTH", "content_filter": "SAFETY"}
    return ChatReply(
        message.content or "",
        FinishReason.REFUSAL if message.refusal else FinishReason[ends[choice.finish_reason]],
        TokenUsage(usage.prompt_tokens, usage.completion_tokens) if usage else TokenUsage(),
        parsed.model,
        message.refusal,
        parsed.system_fingerprint or "",
    )


def anthropic_reads(reply: Json) -> ChatReply:
    parsed = Message.model_validate(reply, strict=True)
    ends = {
        **dict.fromkeys(("end_turn", "stop_sequence"), "STOP"),
        **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "LENGTH"),
        "refusal": "REFUSAL",
        "pause_turn": "OTHER",
    }
    said = "".join(block.text for block in parsed.content if block.type == "text")
    usage = parsed.usage
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return ChatReply(
        said,
        FinishReason[ends[parsed.stop_reason or ""]],
        TokenUsage(usage.input_tokens + cached, usage.output_tokens),
        parsed.model,
        parsed.stop_details.explanation if parsed.stop_details else None,
    )


def gemini_reads(reply: Json) -> ChatReply:
    parsed = types.GenerateContentResponse.model_validate(reply)
    usage = parsed.usage_metadata or types.GenerateContentResponseUsageMetadata()
    spent = TokenUsage(
        usage.prompt_token_count or 0,
        (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
    )
    if not parsed.candidates:
        return ChatReply("", FinishReason.SAFETY, spent, parsed.model_version or "")
    [candidate] = parsed.candidates
    ends = {"STOP": "STOP", "MAX_TOKENS": "LENGTH", "CONTINUATION": "LENGTH"}
    stopped = "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII ESCALATION MODEL_ARMOR"
    ends |= dict.fromkeys(stopped.split(), "SAFETY")
    finish = candidate.finish_reason.value if candidate.finish_reason else ""
    return ChatReply(
        parsed.text or "",
        FinishReason[ends.get(finish, "OTHER" if finish else "UNTOLD")],
        spent,
        parsed.model_version or "",
    )


READS = {"openai": openai_reads, "anthropic": anthropic_reads, "gemini": gemini_reads}


def openai(finish: str = "stop", **message: Any) -> Json:
    """A reply as the API documents it."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "YES", "refusal": None, **message},
                "logprobs": None,
                "finish_reason": finish,
            }
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
        "system_fingerprint": "fp_1",
    }


def text(said: str) -> Json:
    return {"type": "text", "text": said, "citations": None}


def anthropic(*blocks: Json, stop: str = "end_turn", **more: Any) -> Json:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5",
        "content": list(blocks),
        "stop_reason": stop,
        "stop_sequence": None,
        "stop_details": None,
        "usage": {
            "input_tokens": 12,
            "output_tokens": 3,
            "cache_creation_input_tokens": 5,
            "cache_read_input_tokens": 7,
        },
        **more,
    }


def gemini(*parts: Json, **candidate: Any) -> Json:
    first = {"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}
    return {
        "candidates": [{**first, **candidate}],
        "usageMetadata": {
            "promptTokenCount": 12,
            "candidatesTokenCount": 3,
            "thoughtsTokenCount": 40,
        },
        "modelVersion": "gemini-3.5-flash-001",
    }


THOUGHT = {"type": "thinking", "thinking": "Hm. It says NO.", "signature": "c2ln"}
REFUSED = {"type": "refusal", "category": "bio", "explanation": "It could do harm."}
BLOCKED = {
    "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
    "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
    "modelVersion": "gemini-3.5-flash-001",
}
REPLIES: list[tuple[str, Json]] = [
    ("openai", openai()),
    ("openai", openai() | {"usage": None, "system_fingerprint": None}),
    ("openai", openai("length")),
    ("openai", openai("content_filter", content=None)),
    ("openai", openai(content=None, refusal="I can't help with that.")),
    ("anthropic", anthropic(text("YES"))),
    ("anthropic", anthropic(THOUGHT, text("{"), text("}"))),
    ("anthropic", anthropic(THOUGHT, stop="max_tokens")),
    ("anthropic", anthropic(text("Y"), stop="model_context_window_exceeded")),
    ("anthropic", anthropic(text("Y"), stop="pause_turn")),
    ("anthropic", anthropic(text("I can"), stop="refusal", stop_details=REFUSED)),
    ("anthropic", anthropic(text("Y"), usage={"input_tokens": 1, "output_tokens": 2})),
    ("gemini", gemini({"text": "I think NO.", "thought": True}, {"text": "{"}, {"text": "}"})),
    ("gemini", BLOCKED),
    ("gemini", gemini(content={"role": "model"}, finishReason="MAX_TOKENS")),
    *(("gemini", gemini(finishReason=reason.value)) for reason in types.FinishReason),
]

MEANS = [(dialect, means) for dialect in DIALECTS for means in CAPABILITIES[dialect].structured]


@pytest.mark.parametrize(("dialect", "means"), MEANS)
@pytest.mark.parametrize("schema", [None, SCHEMA])
@pytest.mark.parametrize("on", [True, False])
def test_requests_are_what_the_api_takes(dialect, means, schema, on):
    body = written(dialect, ASKS._replace(schema=schema), means=means, on=on)
    assert TAKES[dialect](body) == body
    with pytest.raises(ValidationError):
        TAKES[dialect](body | {"messages": 3, "contents": 3})
    settings = body.get("generationConfig", body)
    for key in ("temperature", "seed"):
        assert (key in settings) is (on and dialect != "anthropic"), key
    said = json.dumps(body)
    assert ("additionalProperties" in said) is (
        schema is not None and means is Structured.JSON_SCHEMA
    )


def test_openai_leaves_bounds_out_where_they_are_refused():
    share = {"type": "number", "minimum": 0, "maximum": 1}
    claims = {"type": "array", "items": share, "maxItems": 9, "minItems": 1}
    properties = {"maximum": share, "claims": claims, "why": {"enum": ["a"]}}
    schema = {"type": "object", "properties": properties, "required": ["maximum"]}
    asked = ASKS._replace(schema=ReplySchema("r", schema))
    assert compact(schema) in compact(written("openai", asked))
    bare = {"type": "number"}
    held = {"maximum": bare, "claims": {"type": "array", "items": bare}, "why": {"enum": ["a"]}}
    sent = written("openai", asked, schema_bounds=False)
    assert compact(schema | {"properties": held}) in compact(sent)


@pytest.mark.parametrize("rubric", load_builtin().values(), ids=lambda rubric: rubric.id)
def test_anthropic_gets_schemas_as_its_package_cuts_them(rubric):
    for step in rubric.steps:
        body = written("anthropic", ASKS._replace(schema=step.schema))
        theirs = transform_schema(json.loads(json.dumps(step.schema.schema)))
        assert body["output_config"]["format"]["schema"] == plain(theirs)


def plain(schema: Any) -> Any:
    """A schema of the package without the descriptions that it writes bounds into.

    It also leaves out the type beside an enum, which says nothing more.
    """
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: plain(value) for key, value in schema.items() if key != "description"}
    return kept | ({"type": "string"} if "enum" in kept else {})


@pytest.mark.parametrize(
    ("name", "path"),
    [("gemini-3.5-flash", "models/gemini-3.5-flash"), ("tunedModels/mine-1", "tunedModels/mine-1")],
)
def test_the_path_of_gemini_holds_the_model(name, path):
    found = DIALECTS["gemini"].path(ModelConfiguration("m", "p", name))
    assert found == f"/{path}:generateContent"


@pytest.mark.parametrize(
    ("dialect", "auth", "header"),
    [
        ("openai", "bearer", ("Authorization", "Bearer k")),
        ("openai", "api-key", ("api-key", "k")),
        ("anthropic", "x-api-key", ("x-api-key", "k")),
        ("gemini", "x-goog-api-key", ("x-goog-api-key", "k")),
    ],
)
def test_the_key_stands_in_the_header_of_its_auth_alone(dialect, auth, header):
    provider = ProviderConfiguration("p", "u", auth=auth)
    headers = DIALECTS[dialect].headers
    without, with_key = headers(provider, None), headers(provider, SecretStr("k"))
    assert dict([header]) == dict(with_key.items() - without.items())


@pytest.mark.parametrize(
    ("dialect", "sdk", "reply", "version"),
    [
        ("anthropic", AsyncAnthropic, anthropic(text("YES")), "/v1"),
        ("openai", AsyncOpenAI, openai(), ""),
    ],
)
async def test_requests_are_what_the_sdk_sends(dialect, sdk, reply, version):
    body = written(dialect)
    with raw_provider() as server:
        server.says(reply)
        client = sdk(api_key="k", base_url=server.url)
        calls = client.messages if dialect == "anthropic" else client.chat.completions
        theirs = await calls.create(**body)
        await client.close()
    assert server.asked == [json.loads(json.dumps(body))]
    assert server.paths[-1] == version + DIALECTS[dialect].path(model(dialect))
    assert READS[dialect](theirs.model_dump()) == read(dialect, reply)


# The package derives a class from aiohttp's session, which aiohttp advises against.
@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")
async def test_gemini_requests_are_what_the_sdk_sends():
    """The package is told the same in its own words, and its request is ours."""
    with raw_provider() as server:
        server.says(gemini({"text": "YES"}))
        options = types.HttpOptions(base_url=server.url, api_version="v1beta")
        client = genai.Client(api_key="k", http_options=options)
        reply = await client.aio.models.generate_content(
            model="m-1",
            contents="Is it so?",
            config=types.GenerateContentConfig(
                system_instruction="You judge.",
                max_output_tokens=50,
                temperature=0.25,
                seed=11,
                response_mime_type="application/json",
                response_json_schema=SCHEMA.schema,
            ),
        )
        await client.aio.aclose()
        client.close()
    [asked] = server.asked
    asked["systemInstruction"].pop("role", None)  # optional there
    # It writes some names in snake case, which the API takes as well.
    assert gemini_takes(asked) == written("gemini")
    assert server.paths[-1] == "/v1beta" + DIALECTS["gemini"].path(model("gemini"))
    assert reply.text == "YES"


@pytest.mark.parametrize(("dialect", "reply"), REPLIES)
def test_replies_are_read_as_the_vendor_reads_them(dialect, reply):
    assert read(dialect, reply) == READS[dialect](reply)


words = st.lists(st.text(), max_size=3)


@given(said=words, refusal=st.none() | st.text(min_size=1), thought=st.booleans())
def test_any_texts_are_read_as_the_vendors_read_them(said, refusal, thought):
    texts = [{"text": one} | ({"thought": True} if thought else {}) for one in said]
    for dialect, reply in (
        ("openai", openai(content="".join(said), refusal=refusal)),
        ("anthropic", anthropic(*map(text, said), *([THOUGHT] if thought else []))),
        ("gemini", gemini(*texts)),
    ):
        assert read(dialect, reply) == READS[dialect](reply)


@pytest.mark.parametrize(
    ("dialect", "bare"),
    [
        ("openai", {"choices": [{"message": {"content": "NO"}, "extra": [1]}], "more": {}}),
        ("anthropic", {"content": [{"type": "text", "text": "NO"}], "more": {}}),
        ("gemini", {"candidates": [{"content": {"parts": [{"text": "NO"}]}, "x": 1}]}),
    ],
)
def test_unknown_fields_and_missing_extras_do_not_matter(dialect, bare):
    assert read(dialect, bare) == ChatReply("NO", FinishReason.UNTOLD, TokenUsage(), "")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"code": "content_filter", "message": "canary"}),
        (403, {"code": 403, "message": "canary", "metadata": {"reasons": ["violence"]}}),
        (403, {"code": 403, "message": "canary", "metadata": {"flagged_input": "canary"}}),
    ],
)
def test_a_prompt_that_a_filter_stopped_is_a_refusal(status, error):
    found = DIALECTS["openai"].read_reply(status, json.dumps({"error": error}).encode())
    assert found == ChatReply("", FinishReason.SAFETY, TokenUsage(), "")
