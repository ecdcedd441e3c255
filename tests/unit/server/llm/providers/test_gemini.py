"""Our JSON against the types of the `google-genai` package, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google import genai
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.chat import (
    ChatReply,
    FinishReason,
    TokenLogprob,
    TokenUsage,
)
from judged_server.llm.config.configured import (
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
)
from judged_server.llm.providers.gemini import DIALECT, headers, read_reply, write_request
from pydantic import SecretStr, ValidationError

from tests.fakes.providers.recording_http import recording_http
from tests.unit.server.llm.providers.verdict_request import SCHEMA, asks

MEANS = DIALECT.capabilities.structured
REQUEST_TYPES = {
    "systemInstruction": types.Content,
    "contents": list[types.Content],
    "generationConfig": types.GenerationConfig,
    "tools": list[types.Tool],
    "toolConfig": types.ToolConfig,
}


def model(means: Structured = Structured.JSON_SCHEMA, **changes: Any) -> ModelConfiguration:
    return ModelConfiguration("m", "p", "gemini-3.5-flash", means, **changes)


def as_the_package_reads(body: dict[str, Any]) -> dict[str, Any]:
    """Each part of a request, read by the package's strict types and written again."""
    from pydantic import TypeAdapter

    return {
        name: TypeAdapter(REQUEST_TYPES[name]).dump_python(
            TypeAdapter(REQUEST_TYPES[name]).validate_python(part),
            mode="json",
            by_alias=True,
            exclude_none=True,
        )
        for name, part in body.items()
    }


def whole(*parts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A reply as the API documents it."""
    candidate = {
        "content": {"role": "model", "parts": list(parts) or [{"text": "YES"}]},
        "finishReason": "STOP",
        "index": 0,
        "safetyRatings": [
            {"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"},
        ],
    }
    return {
        "candidates": [{**candidate, **changes.pop("candidate", {})}],
        "usageMetadata": {
            "promptTokenCount": 12,
            "candidatesTokenCount": 3,
            "thoughtsTokenCount": 40,
            "totalTokenCount": 55,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 12}],
        },
        "modelVersion": "gemini-3.5-flash-001",
        "responseId": "r1",
        **changes,
    }


def ended(finish: str, **candidate: Any) -> dict[str, Any]:
    return whole(candidate={"finishReason": finish, **candidate})


LOGPROBS = {
    "chosenCandidates": [
        {"token": "YES", "tokenId": 1, "logProbability": -0.5},
        {"token": "!", "tokenId": 2, "logProbability": -0.25},
    ],
    "topCandidates": [
        {
            "candidates": [
                {"token": "YES", "tokenId": 1, "logProbability": -0.5},
                {"token": "NO", "tokenId": 3, "logProbability": -1.5},
            ]
        },
        {"candidates": [{"token": "!", "tokenId": 2, "logProbability": -0.25}]},
    ],
}
BLOCKED = {
    "promptFeedback": {
        "blockReason": "PROHIBITED_CONTENT",
        "safetyRatings": [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "HIGH"}],
    },
    "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
    "modelVersion": "gemini-3.5-flash-001",
}
CALL = {"functionCall": {"name": "verdict", "args": {"verdict": "yes", "reasoning": "é"}}}


def read(reply: Any) -> ChatReply:
    return read_reply(200, json.dumps(reply).encode())


def by_the_oracle(reply: dict[str, Any]) -> ChatReply:
    """The same reply, read by Google's own types."""
    parsed = types.GenerateContentResponse.model_validate(reply)
    usage = parsed.usage_metadata or types.GenerateContentResponseUsageMetadata()
    spent = TokenUsage(
        (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
        (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
    )
    if not parsed.candidates:
        assert parsed.prompt_feedback is not None
        assert parsed.prompt_feedback.block_reason is not None
        return ChatReply("", FinishReason.SAFETY, spent, parsed.model_version or "")
    [candidate] = parsed.candidates
    calls = parsed.function_calls
    said = json.dumps(calls[0].args, ensure_ascii=False, separators=(",", ":")) if calls else None
    ends = {"STOP": "STOP", "MAX_TOKENS": "LENGTH", "CONTINUATION": "LENGTH"}
    stopped = {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"}
    ends |= dict.fromkeys({*stopped, "ESCALATION", "MODEL_ARMOR"}, "SAFETY")
    finish = candidate.finish_reason.value if candidate.finish_reason else ""
    result = candidate.logprobs_result
    chosen = (result.chosen_candidates or []) if result else []
    top = (result.top_candidates or []) if result else []
    return ChatReply(
        said if said is not None else parsed.text or "",
        FinishReason[ends.get(finish, "OTHER" if finish else "UNTOLD")],
        spent,
        parsed.model_version or "",
        logprobs=tuple(
            TokenLogprob(
                place.token or "",
                tuple((one.token or "", one.log_probability or 0) for one in others.candidates),
            )
            for place, others in zip(chosen, top, strict=True)
        ),
    )


class TestRequests:
    @pytest.mark.parametrize("means", MEANS)
    @pytest.mark.parametrize("seed", [None, 11])
    @pytest.mark.parametrize("schema", [None, SCHEMA])
    @pytest.mark.parametrize("on", [True, False])
    def test_are_what_gemini_takes(self, means, seed, schema, on):
        chosen = model(means, logprobs=on, send_temperature=on, send_seed=on)
        body = write_request(chosen, asks(seed=seed, schema=schema))
        assert as_the_package_reads(body) == body
        settings = body["generationConfig"]
        assert settings["maxOutputTokens"] == 50
        assert ("temperature" in settings, settings.get("responseLogprobs")) == (on, on or None)
        assert ("seed" in settings) is (on and seed is not None)

    def test_the_oracle_refuses_what_gemini_does(self):
        body = write_request(model(), asks())
        with pytest.raises(ValidationError):
            as_the_package_reads(body | {"generationConfig": {"maxTokens": 3}})

    def test_texts_stand_in_their_places(self):
        body = write_request(model(), asks())
        assert body["systemInstruction"] == {"parts": [{"text": "You judge."}]}
        assert body["contents"] == [{"role": "user", "parts": [{"text": "Is it so?"}]}]

    def test_hold_the_reply_to_the_schema_by_the_means_of_the_model(self):
        def of(means: Structured) -> dict[str, Any]:
            return write_request(model(means), asks())

        held = of(Structured.JSON_SCHEMA)["generationConfig"]
        assert held["responseMimeType"] == "application/json"
        assert held["responseJsonSchema"] == SCHEMA.schema
        loose = of(Structured.JSON_OBJECT)["generationConfig"]
        assert loose["responseMimeType"] == "application/json"
        assert "responseJsonSchema" not in loose
        [tool] = of(Structured.TOOL)["tools"]
        assert tool["functionDeclarations"][0]["parametersJsonSchema"] == SCHEMA.schema
        demand = of(Structured.TOOL)["toolConfig"]["functionCallingConfig"]
        assert demand == {"mode": "ANY", "allowedFunctionNames": ["verdict"]}
        assert not {"tools", "toolConfig"} & set(of(Structured.NONE))
        assert "responseMimeType" not in of(Structured.NONE)["generationConfig"]

    @pytest.mark.parametrize(
        ("name", "path"),
        [
            ("gemini-3.5-flash", "/models/gemini-3.5-flash:generateContent"),
            ("models/gemini-3.5-flash", "/models/gemini-3.5-flash:generateContent"),
            ("tunedModels/mine-1", "/tunedModels/mine-1:generateContent"),
        ],
    )
    def test_the_path_holds_the_model(self, name, path):
        assert DIALECT.path(ModelConfiguration("m", "p", name)) == path

    # The package derives a class from aiohttp's session, which aiohttp advises against.
    @pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")
    @pytest.mark.parametrize("means", [Structured.JSON_SCHEMA, Structured.TOOL])
    async def test_are_what_the_sdk_sends(self, means):
        """The package is told the same in its own words, and its request is ours."""
        settings: dict[str, Any] = {
            "system_instruction": "You judge.",
            "max_output_tokens": 50,
            "temperature": 0.25,
            "seed": 11,
            "response_logprobs": True,
            "logprobs": 5,
        }
        if means is Structured.JSON_SCHEMA:
            settings["response_mime_type"] = "application/json"
            settings["response_json_schema"] = SCHEMA.schema
        else:
            function = types.FunctionDeclaration(
                name="verdict",
                description="Records the answer.",
                parameters_json_schema=SCHEMA.schema,
            )
            settings["tools"] = [types.Tool(function_declarations=[function])]
            calling = types.FunctionCallingConfig(mode="ANY", allowed_function_names=["verdict"])
            settings["tool_config"] = types.ToolConfig(function_calling_config=calling)
        async with recording_http(lambda _: (200, whole(CALL))) as server:
            options = types.HttpOptions(base_url=server.url, api_version="v1beta")
            client = genai.Client(api_key="k", http_options=options)
            reply = await client.aio.models.generate_content(
                model="gemini-3.5-flash",
                contents="Is it so?",
                config=types.GenerateContentConfig(**settings),
            )
            await client.aio.aclose()
            client.close()
        ours = write_request(model(means, logprobs=True), asks())
        theirs = server.noted[0].body
        theirs["systemInstruction"].pop("role", None)  # optional there
        # It writes some names in snake case, which the API takes as well.
        assert as_the_package_reads(theirs) == ours
        assert server.noted[0].path == "/v1beta" + DIALECT.path(model())
        assert reply.function_calls[0].args == json.loads(read(whole(CALL)).text)
        key = headers(ProviderConfiguration("p", "u", auth="x-goog-api-key"), SecretStr("k"))
        sent = {name.lower(): value for name, value in server.noted[0].headers.items()}
        assert sent["x-goog-api-key"] == key["x-goog-api-key"] == "k"


class TestHeaders:
    def test_without_a_key(self):
        fields = headers(ProviderConfiguration("p", "u", auth="x-goog-api-key"), None)
        assert not {"x-goog-api-key", "Authorization"} & set(fields)

    def test_bearer(self):
        fields = headers(ProviderConfiguration("p", "u", auth="bearer"), SecretStr("k"))
        assert fields["Authorization"] == "Bearer k"
        assert "x-goog-api-key" not in fields


class TestReplies:
    @pytest.mark.parametrize(
        "reply",
        [
            whole(),
            whole({"text": "I think NO.", "thought": True}, {"text": "{"}, {"text": "}"}),
            whole({"text": "{}", "thoughtSignature": "c2ln"}),
            whole(CALL),
            whole({"text": ""}),
            whole(candidate={"logprobsResult": LOGPROBS}),
            whole(usageMetadata={"promptTokenCount": 5, "toolUsePromptTokenCount": 2}),
            BLOCKED,
            BLOCKED | {"promptFeedback": {"blockReason": "SAFETY"}},
            ended("MAX_TOKENS", content={"role": "model"}),
            ended("SAFETY", content={}),
            *(
                ended(reason.value, content={"role": "model", "parts": []})
                for reason in types.FinishReason
            ),
        ],
    )
    def test_are_read_as_google_reads_them(self, reply):
        assert read(reply) == by_the_oracle(reply)

    @given(
        said=st.lists(st.tuples(st.text(), st.booleans()), max_size=3),
        finish=st.sampled_from(list(types.FinishReason)),
        spent=st.lists(st.none() | st.integers(0, 10**9), min_size=4, max_size=4),
    )
    def test_any_of_the_package_s_own_are_read(self, said, finish, spent):
        built = types.GenerateContentResponse(
            candidates=[
                types.Candidate(
                    content=types.Content(
                        role="model",
                        parts=[
                            types.Part(text=text, thought=thought or None) for text, thought in said
                        ],
                    ),
                    finish_reason=finish,
                )
            ],
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=spent[0],
                tool_use_prompt_token_count=spent[1],
                candidates_token_count=spent[2],
                thoughts_token_count=spent[3],
            ),
            model_version="v",
        )
        raw = built.model_dump_json(by_alias=True, exclude_none=True)
        assert read_reply(200, raw.encode()) == by_the_oracle(json.loads(raw))

    def test_unknown_fields_and_missing_extras_do_not_matter(self):
        bare = {"candidates": [{"content": {"parts": [{"text": "NO"}, {"new": 1}]}, "x": 1}]}
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
            {"candidates": []},
            {"candidates": [None]},
            {"candidates": {"0": {}}},
            {"promptFeedback": {}},
            {"promptFeedback": {"blockReason": 3}},
            whole({"text": 5}),
            whole({"functionCall": "x"}),
            whole({"functionCall": {"args": "x"}}),
            whole(candidate={"content": "YES"}),
            whole(candidate={"content": {"parts": 5}}),
            whole(error={"code": "503", "message": "canary"}),
        ],
    )
    def test_that_lack_something_are_faults(self, reply):
        unreadable = read(reply).unreadable
        assert unreadable
        assert "canary" not in unreadable

    @pytest.mark.parametrize("logprob", ["x", True, [1], 0.5])
    def test_log_probabilities_that_can_not_be_are_left_out(self, logprob):
        result = json.loads(json.dumps(LOGPROBS))
        result["topCandidates"][0]["candidates"][1]["logProbability"] = logprob
        got = read(whole(candidate={"logprobsResult": result}))
        assert got.logprobs[0].top == ()
        assert got.left_out == ("a log-probability can't be one",)


def test_arguments_that_say_something_twice_are_a_fault():
    arguments = b'{"functionCall":{"name":"v","args":{"verdict":"no","verdict":"yes"}}}'
    body = b'{"candidates":[{"content":{"parts":[%b]},"finishReason":"STOP"}]}' % arguments
    assert "a key twice" in read_reply(200, body).unreadable
