from __future__ import annotations

from typing import Any

from judged_server.llm.config import parse_configuration
from judged_server.llm.models import ChatModels


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
    {"structured": "json_object"},
    {"send_temperature": False},
    {"send_seed": False},
    {"max_tokens_parameter": "max_completion_tokens"},
    {"schema_bounds": False},
]


def test_all_that_can_change_a_reply_is_a_condition():
    def conditions(**changes: Any) -> str:
        provider = {"name": "p", "base_url": "https://p.test/v1"}
        model = {"name": "m", "provider": "p", "model": "x"}
        for key, value in changes.items():
            (provider if key == "base_url" else model)[key] = value
        other = {"name": "n", "provider": "p", "model": "y"}
        whole = {"providers": [provider], "models": [model, other]}
        return ChatModels(parse_configuration(whole, "f"), {}).get("m").card.conditions

    found = {conditions(**change) for change in CONDITIONS}
    assert len(found | {conditions()}) == len(CONDITIONS) + 1
