"""What comes beside a reply's text neither decides nor kills; what can't be read is paid twice.

A reply whose end is missing, by whatever name a provider calls that, is no verdict.

A real server, and a provider that answers every request with the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from judged import (
    AnswerItem,
    Asking,
    CacheMode,
    Client,
    Judge,
    QueryGroup,
    Rubric,
    Status,
    Verdict,
    Verdicts,
)
from judged.values import Flag, Usage

from tests.fakes.providers.raw_provider import (
    RawProvider,
    openai,
    raw_provider,
)
from tests.integration.llm_config import priced
from tests.integration.server_process import running_server

DATA = Path(__file__).parents[2] / "data"
REPLIES = [json.loads(line) for line in (DATA / "provider_replies.jsonl").read_text().splitlines()]
"""Bodies of replies, an object or the text that was sent, and what becomes of each: those with
fields of another type, those that can't be read, those that were cut at their 256 tokens, and those
that are whole however they ended."""
PLAIN = 'structured = "none"\n' + priced(1.0, 10.0)


@pytest.fixture(scope="module")
def provider() -> Iterator[RawProvider]:
    with raw_provider() as running:
        yield running


@pytest.fixture(scope="module")
def target(provider: RawProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("odd")
    config = provider.config(folder, PLAIN, json="")
    with running_server("--llm-config", config) as ready:
        yield ready.address


def ask(client: Client, model: str, **parameters: Any) -> tuple[Verdict, Usage]:
    found: Verdicts = client.judge(
        [QueryGroup("q", ["Paris"], ["Paris"])],
        Judge("llm", parameters={"model": model, **parameters}),
        asking=Asking(CacheMode.REFRESH),
        timeout=60,
    )
    assert found.usage is not None
    return found[0], found.usage


@pytest.mark.parametrize("case", REPLIES, ids=lambda case: case["note"])
def test_a_reply_decides_by_its_text_alone(
    client: Client, provider: RawProvider, case: dict[str, Any]
):
    model, body = case["model"], case["body"]
    provider.says(body if isinstance(body, dict) else body.encode())
    found, took = ask(client, model)
    reason = found.error.reason if found.error else None
    assert (found.status.name, reason) == (case["status"], case.get("reason"))
    assert found.relevant is (True if found.status is Status.OK else None)
    if found.error:
        assert case.get("says", "") in found.error.message
        assert not found.error.retryable
    assert took.calls == took.attempts == len(provider.asked) == case.get("calls", took.calls)
    assert took.estimated == case.get("estimated", took.estimated)
    assert took.output_tokens == case.get("output_tokens", took.output_tokens)
    assert took.input_tokens > 0
    if model == "json":
        assert took.cost is None
    else:
        assert took.cost == pytest.approx((took.input_tokens + 10 * took.output_tokens) / 1e6)


def test_a_prompt_that_was_not_read_in_full_is_flagged(client: Client, provider: RawProvider):
    provider.says(openai(usage={"prompt_tokens": 200, "completion_tokens": 3}))
    texts = ["so " * 150, "so " * 190 + "much"]
    groups = [QueryGroup("", ["Paris"], [text]) for text in (*texts, "so " * 300)]
    found = client.judge(groups, Judge("llm", parameters={"model": "openai"}))
    assert found.flags == [0, 0, Flag.TRUNCATED]
    items = [AnswerItem("a", "q", "so " * 300)]
    [score] = client.score_answers(items, [Rubric("helpfulness", model="openai")])
    assert "read only part" in score.warnings[0]


def test_what_is_left_out_is_told_once(client: Client, provider: RawProvider):
    provider.says(openai(system_fingerprint=123, model=None))
    found = client.judge(
        [QueryGroup("q", ["Paris"], ["Paris", "Rome"]), QueryGroup("q", ["Rome"], ["Paris"])],
        Judge("llm", parameters={"model": "openai"}),
        asking=Asking(CacheMode.REFRESH),
    )
    assert found.usage.left_out == ("openai: system_fingerprint",)


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


@pytest.mark.parametrize("body", [PAGE, b"Forbidden", {"message": "Forbidden"}, [], "no"])
def test_a_firewall_s_403_is_no_refused_key(client: Client, provider: RawProvider, body: object):
    provider.says(body, 403)
    for model in ("openai", "anthropic", "gemini"):
        found, _ = ask(client, model)
        assert found.error.reason == "PROVIDER_ERROR"
        assert "in place of its answer, with the status 403" in found.error.message
        assert "key" not in found.error.message
        assert "canary" not in found.error.message
