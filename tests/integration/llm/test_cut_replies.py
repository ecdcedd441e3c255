"""Plain replies whose end is missing, by whatever name a provider calls that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from judged import Asking, CacheMode, Client, Judge, QueryGroup, Status

from tests.fakes.providers.raw_provider import (
    RawProvider,
    anthropic,
    gemini,
    openai,
    raw_provider,
)
from tests.integration.server_process import running_server

CUT = (
    "The retrieved text matches the expected text in its subject, and it names the same river, the"
)
"""It says yes so far; what would have followed nobody knows."""
SAID = "It names the same river.\nVERDICT: YES"
"""A whole answer, if it is whole."""
CAP = 256
"""The tokens that a plain verdict may take."""


@pytest.fixture(scope="module")
def provider() -> Iterator[RawProvider]:
    with raw_provider() as running:
        yield running


@pytest.fixture(scope="module")
def client(provider: RawProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    config = provider.config(tmp_path_factory.mktemp("cut"), 'structured = "none"', json="")
    with running_server("--llm-config", config) as ready, Client(ready.address) as connected:
        yield connected


def verdict(client: Client, model: str) -> tuple[Status, bool | None, str]:
    """What the model's reply comes to: the status, the verdict, and the reason for none."""
    [found] = client.judge(
        [QueryGroup("q", ["Paris"], ["Paris"])],
        Judge("llm", parameters={"model": model}),
        asking=Asking(CacheMode.REFRESH),
        timeout=60,
    )
    reason = found.error.reason if found.error else ""
    return found.status, found.relevant if found.status is Status.OK else None, reason


def counted(n: int) -> dict[str, Any]:
    return {"prompt_tokens": 100, "completion_tokens": n}


LOST = (Status.ERROR, None, "REPLY_TRUNCATED")
CASES = {
    "length": ("openai", openai(CUT, "length")),
    "max_tokens": ("openai", openai(CUT, "max_tokens")),
    "MAX_TOKENS": ("openai", openai(CUT, "MAX_TOKENS")),
    "stop at the cap": ("openai", openai(CUT, "stop", usage=counted(CAP))),
    # Siblings.
    "Length": ("openai", openai(CUT, "Length")),
    "model_length": ("openai", openai(CUT, "model_length")),
    "max-output-tokens": ("openai", openai(CUT, "max-output-tokens")),
    "maxTokens": ("openai", openai(CUT, "maxTokens")),
    "token_limit": ("openai", openai(CUT, "token_limit")),
    "truncated": ("openai", openai(CUT, "truncated")),
    "incomplete": ("openai", openai(CUT, "incomplete")),
    "unknown": ("openai", openai(SAID, "insufficient_system_resource")),
    "error": ("openai", openai(SAID, "error")),
    "above the cap": ("openai", openai(CUT, "stop", usage=counted(CAP + 1))),
    "the cap by another name": ("openai", openai(CUT, "eos", usage=counted(CAP))),
    "anthropic LENGTH": ("anthropic", anthropic(CUT, "LENGTH")),
    "anthropic MAX_TOKENS": ("anthropic", anthropic(CUT, "MAX_TOKENS")),
    "anthropic pause": ("anthropic", anthropic(SAID, "pause_turn")),
    "anthropic at the cap": (
        "anthropic",
        anthropic(CUT, usage={"input_tokens": 100, "output_tokens": CAP}),
    ),
    "gemini length": ("gemini", gemini(CUT, "length")),
    "gemini max_tokens": ("gemini", gemini(CUT, "max_tokens")),
    "gemini other": ("gemini", gemini(SAID, "OTHER")),
    "gemini thoughts to the cap": (
        "gemini",
        gemini(
            CUT,
            usageMetadata={
                "promptTokenCount": 100,
                "candidatesTokenCount": 6,
                "thoughtsTokenCount": CAP - 6,
            },
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_reply_that_was_cut_is_no_verdict(client: Client, provider: RawProvider, name: str):
    model, reply = CASES[name]
    provider.says(reply)
    assert verdict(client, model) == LOST


WHOLE = {
    "a bare yes": ("openai", openai("YES", "stop")),
    "a bare yes of an unknown end": ("openai", openai("**YES**", "whatever")),
    "stop by another case": ("openai", openai("YES\nIt says so.", "STOP")),
    "eos": ("openai", openai("YES\nIt says so.", "eos_token")),
    "end_turn": ("openai", openai("YES\nIt says so.", "end_turn")),
    "no word on the end": ("openai", openai("YES\nIt says so.", None)),
    "one below the cap": ("openai", openai("YES\nIt says so.", usage=counted(CAP - 1))),
    "anthropic": ("anthropic", anthropic("YES\nIt says so.", "stop_sequence")),
    "gemini": ("gemini", gemini("YES\nIt says so.", "stop")),
    "a whole object at the cap": (
        "json",
        openai('{"reasoning": "so", "verdict": "yes"}', "max_tokens", usage=counted(4096)),
    ),
    "a whole object of an unknown end": (
        "json",
        openai('{"reasoning": "so", "verdict": "yes"}', "whatever"),
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_reply_is_one(client: Client, provider: RawProvider, name: str):
    model, reply = WHOLE[name]
    provider.says(reply)
    assert verdict(client, model) == (Status.OK, True, "")


def test_a_filter_is_one_by_any_name(client: Client, provider: RawProvider):
    for finish in ("content_filter", "SAFETY", "contentFilter"):
        provider.says(openai(CUT, finish))
        assert verdict(client, "openai") == (Status.ABSTAINED, None, "REFUSED")
