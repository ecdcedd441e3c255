"""What every dialect makes of the errors of its provider, and of whatever else may come."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types.shared import ErrorResponse
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.chat import ProviderFault, Reason
from judged_server.llm.providers.dialects import DIALECTS

FIELDS = (
    "args", "arguments", "blockReason", "candidates", "choices", "code",
    "content", "details", "error", "explanation", "finishReason", "function", "functionCall",
    "input", "input_tokens", "message", "parts", "promptFeedback",
    "promptTokenCount", "prompt_tokens", "reason", "retryDelay", "stop_details", "stop_reason",
    "text", "thought", "token", "type", "usage", "usageMetadata",
)  # fmt: skip
"""Names in the replies and errors of the dialects."""


def of_anthropic(kind: str, message: str = "no", **more: Any) -> dict[str, Any]:
    """The body of an error; one of the types that the package knows."""
    body = {"type": "error", "error": {"type": kind, "message": message, **more}}
    ErrorResponse.model_validate(body | {"request_id": "req_1"})
    return body


def of_gemini(status: str, message: str = "no", *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": 1, "message": message, "status": status, "details": list(details)}}


OF_LLAMA_CPP = {"code": 400, "type": "exceed_context_size_error", "message": "canary"}
BAD_KEY = {
    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
    "reason": "API_KEY_INVALID",
    "domain": "googleapis.com",
    "metadata": {"service": "generativelanguage.googleapis.com"},
}

OPENAI = [
    (429, {"error": {"code": "insufficient_quota"}}, Reason.RATE_LIMITED, False, "no money"),
    (400, {"error": {"code": "context_length_exceeded"}}, Reason.PROVIDER_ERROR, False, "window"),
    (400, {"error": OF_LLAMA_CPP}, Reason.PROVIDER_ERROR, False, "window"),
]
ANTHROPIC = [
    (529, of_anthropic("overloaded_error"), Reason.PROVIDER_ERROR, True, "overloaded"),
    (500, of_anthropic("api_error"), Reason.PROVIDER_ERROR, True, "answered 500"),
    (504, of_anthropic("timeout_error"), Reason.PROVIDER_ERROR, True, "answered 504"),
    (429, of_anthropic("rate_limit_error"), Reason.RATE_LIMITED, True, "too many"),
    (401, of_anthropic("authentication_error"), Reason.PROVIDER_REFUSED_KEY, False, "key_env"),
    (403, of_anthropic("permission_error"), Reason.PROVIDER_REFUSED_KEY, False, "refuses the key"),
    (404, of_anthropic("not_found_error"), Reason.PROVIDER_ERROR, False, "model's name"),
    (413, {"error": {"type": "request_too_large"}}, Reason.PROVIDER_ERROR, False, "long"),
    (402, of_anthropic("billing_error"), Reason.RATE_LIMITED, False, "no money"),
    (
        400,
        of_anthropic("invalid_request_error", "Your credit balance is too low to access it"),
        Reason.RATE_LIMITED,
        False,
        "no money",
    ),
    (
        429,
        of_anthropic("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}),
        Reason.RATE_LIMITED,
        False,
        "no money",
    ),
    (
        400,
        of_anthropic("invalid_request_error", "prompt is too long: 208310 tokens > 200000 max"),
        Reason.PROVIDER_ERROR,
        False,
        "window",
    ),
    (400, {"error": OF_LLAMA_CPP}, Reason.PROVIDER_ERROR, False, "window"),
    (
        400,
        of_anthropic("invalid_request_error", "canary: temperature is deprecated"),
        Reason.PROVIDER_ERROR,
        False,
        "quirks",
    ),
]
GEMINI = [
    (400, of_gemini("INVALID_ARGUMENT", "canary"), Reason.PROVIDER_ERROR, False, "quirks"),
    (
        400,
        of_gemini("INVALID_ARGUMENT", "API key not valid: canary", BAD_KEY),
        Reason.PROVIDER_REFUSED_KEY,
        False,
        "key_env",
    ),
    (
        400,
        of_gemini(
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed "
            "(1048576).",
        ),
        Reason.PROVIDER_ERROR,
        False,
        "window",
    ),
    (403, of_gemini("PERMISSION_DENIED"), Reason.PROVIDER_REFUSED_KEY, False, "refuses"),
    (404, of_gemini("NOT_FOUND"), Reason.PROVIDER_ERROR, False, "model's name"),
    (429, of_gemini("RESOURCE_EXHAUSTED"), Reason.RATE_LIMITED, True, "too many"),
    (500, of_gemini("INTERNAL"), Reason.PROVIDER_ERROR, True, "answered 500"),
    (503, of_gemini("UNAVAILABLE"), Reason.PROVIDER_ERROR, True, "answered 503"),
]


@pytest.mark.parametrize(
    ("dialect", "status", "body", "reason", "retryable", "says"),
    [
        (dialect, *case)
        for dialect, cases in (("openai", OPENAI), ("anthropic", ANTHROPIC), ("gemini", GEMINI))
        for case in cases
    ],
)
def test_errors_say_what_to_do_and_whether_to_try_again(
    dialect, status, body, reason, retryable, says
):
    with pytest.raises(ProviderFault, match=says) as caught:
        DIALECTS[dialect].read_reply(status, json.dumps(body).encode())
    assert (caught.value.reason, caught.value.retryable) == (reason, retryable)
    assert caught.value.status == status
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"error":"text"}', b'{"error":{}}', b"\xff"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_any_body_will_do(dialect, body):
    for status in (201, 302, 400, 401, 404, 429, 500, 529):
        with pytest.raises(ProviderFault) as caught:
            DIALECTS[dialect].read_reply(status, body)
        assert caught.value.status == status


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(FIELDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(reply=ANY_JSON, status=st.sampled_from([200, 400, 402, 403, 429, 500, 503, 529]))
def test_whatever_comes_is_a_reply_or_a_fault(dialect, reply, status):
    try:
        got = DIALECTS[dialect].read_reply(status, json.dumps(reply).encode())
    except ProviderFault:
        return
    assert isinstance(got.text, str)
