from __future__ import annotations

from typing import Any

import pytest
from judged_server.errors import ModelNotConfigured
from judged_server.llm.chat import ChatRequest, ReplySchema
from judged_server.llm.config import parse_configuration
from judged_server.llm.models import ChatModels

SCHEMA = ReplySchema("verdict", {"type": "object", "properties": {"verdict": {"type": "string"}}})


def question(user: str = "?", **changes: Any) -> ChatRequest:
    return ChatRequest("judge", user, SCHEMA, 20, 0.0, **changes)


def test_the_default_is_listed_first_and_found_without_a_name():
    provider = {"name": "p", "base_url": "https://p.test/v1"}
    named = [
        {"name": "a", "provider": "p", "model": "x"},
        {"name": "b", "provider": "p", "model": "y", "default": True},
    ]
    models = ChatModels(parse_configuration({"providers": [provider], "models": named}, "f"), {})
    assert [listed.card.name for listed in models.listed()] == ["b", "a"]
    assert models.get("").card.name == "b"


CONDITIONS = [
    {"base_url": "https://other.test/v1"},
    {"organization": "org-2"},
    {"project": "proj-2"},
    {"structured": "tool"},
    {"send_temperature": False},
    {"send_seed": False},
    {"max_tokens_parameter": "max_completion_tokens"},
    {"schema_bounds": False},
    {"fallback": ["n"]},
]


def test_all_that_can_change_a_reply_is_a_condition():
    def conditions(**changes: Any) -> str:
        provider = {"name": "p", "base_url": "https://p.test/v1"}
        model = {"name": "m", "provider": "p", "model": "x"}
        for key, value in changes.items():
            (provider if key in {"base_url", "organization", "project"} else model)[key] = value
        other = {"name": "n", "provider": "p", "model": "y"}
        whole = {"providers": [provider], "models": [model, other]}
        return ChatModels(parse_configuration(whole, "f"), {}).get("m").card.conditions

    found = {conditions(**change) for change in CONDITIONS}
    assert len(found | {conditions()}) == len(CONDITIONS) + 1


def fake_files(folder: Any, *replies: str) -> dict[str, Any]:
    """A document of a fake provider for each file, and one model of each: m0, m1, ..."""
    for place, reply in enumerate(replies):
        (folder / f"{place}.jsonl").write_text(reply)
    return {
        "providers": [
            {"name": f"p{place}", "dialect": "fake", "replies": f"{place}.jsonl"}
            for place in range(len(replies))
        ],
        "models": [
            {"name": f"m{place}", "provider": f"p{place}", "model": f"x{place}"}
            for place in range(len(replies))
        ],
    }


async def test_a_fallback_without_its_key_is_left_out(tmp_path):
    whole = fake_files(tmp_path, '{"error": "BREAKER_OPEN"}', '{"reply": "2"}')
    whole["models"][0]["fallback"] = ["locked", "m1"]
    whole["models"].append({"name": "locked", "provider": "q", "model": "x"})
    whole["providers"].append({"name": "q", "base_url": "https://q.test", "key_env": "Q_KEY"})
    models = ChatModels(parse_configuration(whole, "f", tmp_path), {})
    assert (await models.get("m0").complete(question(), 10.0)).reply.text == "2"
    # And a model whose own key is missing is not asked through its fallback.
    whole["models"][2]["fallback"] = ["m1"]
    whole["models"][0]["fallback"] = []
    models = ChatModels(parse_configuration(whole, "f", tmp_path), {})
    with pytest.raises(ModelNotConfigured, match="Q_KEY is not set"):
        await models.get("locked").complete(question(), 10.0)
