"""What comes beside a reply's text neither decides nor kills; what can't be read is paid twice.

A real server, and a provider that answers every request with the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from judged import Asking, CacheMode, Client, Judge, QueryGroup, Status, Verdict, Verdicts
from judged.values import Usage

from tests.fakes.providers.raw_provider import (
    RawProvider,
    anthropic,
    gemini,
    openai,
    raw_provider,
)
from tests.integration.llm_config import priced
from tests.integration.server_process import running_server

PLAIN = 'structured = "none"\n' + priced(1.0, 10.0)


@pytest.fixture(scope="module")
def provider() -> Iterator[RawProvider]:
    with raw_provider() as running:
        yield running


@pytest.fixture(scope="module")
def client(provider: RawProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("odd")
    weighed = PLAIN + "logprobs = true\n"
    config = provider.config(folder, PLAIN, logprobs=weighed, behind='fallback = ["json"]', json="")
    with running_server("--llm-config", config) as ready, Client(ready.address) as connected:
        yield connected


def ask(client: Client, model: str, **parameters: Any) -> tuple[Verdict, Usage]:
    found: Verdicts = client.judge(
        [QueryGroup("q", ["Paris"], ["Paris"])],
        Judge("llm", parameters={"model": model, **parameters}),
        asking=Asking(CacheMode.REFRESH),
        timeout=60,
    )
    assert found.usage is not None
    return found[0], found.usage


def raw(body: dict[str, Any], change: Callable[[str], str]) -> bytes:
    return change(json.dumps(body)).encode()


def said(**message: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "YES", **message}, "finish_reason": "stop"}]}


def usage(**counts: Any) -> dict[str, Any]:
    return openai(usage=counts)


THOUGHT = {"type": "thinking", "thinking": [{"type": "text", "text": "NO, wait."}]}
TEXT = {"type": "text", "text": "YES"}
CASES: dict[str, tuple[str, object]] = {
    "content in parts": ("openai", openai([THOUGHT, TEXT])),
    "usage below 0": ("openai", usage(prompt_tokens=-1, completion_tokens=-1)),
    "usage in floats": ("openai", usage(prompt_tokens=12.0, completion_tokens=3.0)),
    "an empty error": ("openai", openai(error="")),
    "a number as fingerprint": ("openai", openai(system_fingerprint=123)),
    # Siblings.
    "a reasoning part": ("openai", openai([{"type": "reasoning", "text": "NO"}, TEXT])),
    "parts as texts": ("openai", openai(["Y", "ES"])),
    "one part without a list": ("openai", openai(TEXT)),
    "parts of output_text": ("openai", openai([{"type": "output_text", "text": "YES"}])),
    "usage is a list": ("openai", openai(usage=[])),
    "usage is a text": ("openai", openai(usage="n/a")),
    "usage in texts": ("openai", usage(prompt_tokens="100", completion_tokens="10")),
    "half a token": ("openai", usage(prompt_tokens=12.5, completion_tokens=10)),
    "usage true": ("openai", usage(prompt_tokens=True, completion_tokens=10)),
    "no usage": ("openai", openai(usage=None)),
    "an error {}": ("openai", openai(error={})),
    "an error []": ("openai", openai(error=[])),
    "an error false": ("openai", openai(error=False)),
    "a model in a list": ("openai", openai(model=["m"])),
    "refusal false": ("openai", openai(**said(refusal=False))),
    "refusal in an object": ("openai", openai(**said(refusal={}))),
    "a finish reason in an object": ("openai", openai("YES", {"type": "stop"})),
    "logprobs in a list": (
        "openai",
        openai(choices=[{"message": {"content": "YES"}, "logprobs": [1], "finish_reason": "stop"}]),
    ),
    "a byte order mark": ("openai", b"\xef\xbb\xbf" + json.dumps(openai()).encode()),
    "-Infinity": ("openai", raw(openai(score=0.25), lambda s: s.replace("0.25", "-Infinity"))),
    "NaN": ("openai", raw(openai(score=0.25), lambda s: s.replace("0.25", "NaN"))),
    "no tool calls by another name": ("openai", openai(**said(tool_calls=False))),
    "anthropic: a text as content": ("anthropic", anthropic() | {"content": "YES"}),
    "anthropic: usage below 0": (
        "anthropic",
        anthropic(usage={"input_tokens": -1, "output_tokens": -1}),
    ),
    "anthropic: usage is a list": ("anthropic", anthropic(usage=[])),
    "anthropic: half a token": (
        "anthropic",
        anthropic(usage={"input_tokens": 1.5, "output_tokens": 2}),
    ),
    "anthropic: a model in a list": ("anthropic", anthropic(model=["m"])),
    "anthropic: an error {}": ("anthropic", anthropic(error={})),
    "anthropic: thinking": (
        "anthropic",
        anthropic([{"type": "thinking", "thinking": "NO", "signature": 5}, TEXT]),
    ),
    "anthropic: a stop reason in a list": ("anthropic", anthropic("YES", ["end_turn"])),
    "gemini: usage below 0": ("gemini", gemini(usageMetadata={"promptTokenCount": -1})),
    "gemini: usage is a text": ("gemini", gemini(usageMetadata="none")),
    "gemini: half a thought": (
        "gemini",
        gemini(usageMetadata={"promptTokenCount": 9, "thoughtsTokenCount": 0.5}),
    ),
    "gemini: a number as version": ("gemini", gemini(modelVersion=4)),
    "gemini: parts as texts": ("gemini", gemini(["YES"])),
    "gemini: feedback in a list": ("gemini", gemini(promptFeedback=[])),
    "gemini: a finish reason as a number": ("gemini", gemini("YES", 1)),
    "gemini: log-probabilities of nothing": (
        "gemini",
        gemini() | {"candidates": [gemini()["candidates"][0] | {"logprobsResult": []}]},
    ),
}
TOLD = (
    "content in parts", "usage in floats", "an empty error", "a number as fingerprint",
    "a reasoning part", "parts as texts", "one part without a list", "parts of output_text",
    "an error {}", "an error []", "an error false", "a model in a list", "refusal false",
    "refusal in an object", "a finish reason in an object", "logprobs in a list",
    "a byte order mark", "-Infinity", "NaN", "no tool calls by another name",
    "anthropic: a text as content", "anthropic: a model in a list", "anthropic: an error {}",
    "anthropic: thinking", "anthropic: a stop reason in a list", "gemini: a number as version",
    "gemini: parts as texts", "gemini: feedback in a list", "gemini: a finish reason as a number",
    "gemini: log-probabilities of nothing",
)  # fmt: skip
"""Those whose tokens the provider counts."""


@pytest.mark.parametrize("name", CASES)
def test_the_reply_counts_from_one_request(client: Client, provider: RawProvider, name: str):
    model, body = CASES[name]
    provider.says(body)
    found, took = ask(client, model)
    assert (found.status, found.relevant, len(provider.asked)) == (Status.OK, True, 1)
    assert (took.calls, took.attempts, took.estimated) == (1, 1, int(name not in TOLD))
    assert took.input_tokens > 0
    assert took.output_tokens > 0
    assert took.cost == pytest.approx((took.input_tokens + 10 * took.output_tokens) / 1e6)


def test_what_is_left_out_is_told_once(client: Client, provider: RawProvider):
    provider.says(openai(system_fingerprint=123, model=None))
    found = client.judge(
        [QueryGroup("q", ["Paris"], ["Paris", "Rome"]), QueryGroup("q", ["Rome"], ["Paris"])],
        Judge("llm", parameters={"model": "openai"}),
        asking=Asking(CacheMode.REFRESH),
    )
    assert found.usage is not None
    assert found.usage.left_out == ("openai: system_fingerprint is a number",)


def place(yes: object, no: object, chosen: str = "YES") -> bytes:
    """A reply YES with the log-probabilities of its one token."""
    top = [{"token": "YES", "logprob": yes}, {"token": "NO", "logprob": no}]
    logprobs = {"content": [{"token": chosen, "logprob": yes, "top_logprobs": top}]}
    choice = {"message": {"content": "YES"}, "finish_reason": "stop", "logprobs": logprobs}
    return json.dumps(openai(choices=[choice])).encode()


@pytest.mark.parametrize(
    ("yes", "no", "score"),
    [
        (-0.1, None, 1.0),
        (-0.1, -float("inf"), 1.0),
        (-0.1, -9999.0, 1.0),
        (1e-7, -30.0, 1.0),
        (-0.6931, -0.6931, 0.5),
        # Impossible ones decide nothing.
        (None, -3.0, None),
        (-float("inf"), -3.0, None),
        (0.7, -3.0, None),
        (-0.1, 0.7, None),
        (-0.1, float("nan"), None),
        (-0.1, "-inf", None),
        (True, -3.0, None),
    ],
)
def test_a_log_probability_that_can_not_be_one_decides_nothing(
    client: Client, provider: RawProvider, yes: object, no: object, score: float | None
):
    provider.says(place(yes, no))
    found, _ = ask(client, "logprobs", scoring="logprobs")
    if score is None:
        assert (found.status, found.error and found.error.reason) == (
            Status.ABSTAINED,
            "UNPARSABLE",
        )
    else:
        assert found.status is Status.OK
        assert found.score == pytest.approx(score, abs=1e-4)


BROKEN: dict[str, tuple[str, object, str]] = {
    "no JSON": ("openai", b"YES", "3 bytes that are no JSON"),
    "nothing": ("openai", b"", "0 bytes that are no JSON"),
    "a list": ("openai", [openai()], "a list in place of a JSON object"),
    "JSON that was cut": ("openai", json.dumps(openai()).encode()[:-9], "bytes that are no JSON"),
    "an error in words": ("openai", openai(error="overloaded"), "an error with the status 200"),
    "no choices": ("openai", {"model": "m"}, "lacks choices"),
    "no choice": ("openai", openai(choices=[]), "holds no answer"),
    "choices in an object": ("openai", openai(choices={}), "has an object as its choices"),
    "content is a number": ("openai", openai(5), "a number in its content"),
    "content is true": ("openai", openai([True]), "true or false in its content"),
    "a text that is none": (
        "openai",
        openai([{"type": "text", "text": 5}]),
        "a number as its text",
    ),
    "no part of text": ("openai", openai([{"type": "image_url"}]), "no text in its content"),
    "content in an object": ("openai", openai({"answer": "YES"}), "no text in its content"),
    "half a character": ("openai", b'{"choices": "\\ud800"}', "bytes that are no JSON"),
    "anthropic: no content": ("anthropic", {"model": "m"}, "lacks content"),
    "anthropic: a number": ("anthropic", anthropic([{"type": "text", "text": 5}]), "as its text"),
    "gemini: no candidates": ("gemini", {}, "lacks candidates"),
    "gemini: a text as content": ("gemini", {"candidates": [{"content": "YES"}]}, "as its content"),
    "with a fallback": ("behind", {"model": "m"}, "lacks choices"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_can_not_be_read_is_asked_once_more_and_counted(
    client: Client, provider: RawProvider, name: str
):
    model, body, says = BROKEN[name]
    provider.says(body)
    found, took = ask(client, model)
    assert found.status is Status.ERROR
    assert found.error is not None
    assert (found.error.reason, found.error.retryable) == ("PROVIDER_ERROR", False)
    assert says in found.error.message
    assert (len(provider.asked), took.calls, took.attempts) == (2, 2, 2)
    assert took.input_tokens > 0
    assert took.cost is None if model == "behind" else took.cost


def test_an_unreadable_reply_is_counted_by_its_own_count(client: Client, provider: RawProvider):
    provider.says(openai(5))
    _, took = ask(client, "openai")
    assert (took.input_tokens, took.output_tokens, took.estimated) == (200, 20, 0)
    assert took.cost == pytest.approx(2 * (100 + 100) / 1e6)


def test_unreadable_replies_hold_up_nobody(client: Client, provider: RawProvider):
    """They are no outage: 30 of them, and the next question is asked at once."""
    provider.says(b"[]")
    found = client.judge(
        [QueryGroup("q", [f"Paris {n}"], ["Paris"]) for n in range(30)],
        Judge("llm", parameters={"model": "openai"}),
        asking=Asking(CacheMode.REFRESH),
    )
    assert {each.error and each.error.reason for each in found} == {"PROVIDER_ERROR"}
    assert len(provider.asked) == 60
    provider.says(openai())
    assert ask(client, "openai")[0].status is Status.OK


PAGE = b"<!DOCTYPE html><html><title>Access denied</title>canary</html>"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (PAGE, "a page of HTML with the status 403"),
        (b"Forbidden", "9 bytes that are no JSON with the status 403"),
        ({"message": "Forbidden"}, "an object with the status 403"),
        ([], "a list with the status 403"),
        ("no", "a text with the status 403"),
    ],
)
def test_a_firewall_s_403_is_no_refused_key(
    client: Client, provider: RawProvider, body: object, says: str
):
    provider.says(body, 403)
    for model in ("openai", "anthropic", "gemini"):
        found, _ = ask(client, model)
        assert found.error is not None
        assert found.error.reason == "PROVIDER_ERROR"
        assert says in found.error.message
        assert "key" not in found.error.message
        assert "canary" not in found.error.message
