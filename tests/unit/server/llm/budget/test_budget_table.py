from __future__ import annotations

from pathlib import Path

from judged_server.llm.config import parse_configuration


def document(budget, **model):
    provider = {"name": "p", "base_url": "https://example.com/v1"}
    prices = {"input_per_million": 1, "output_per_million": 2}
    entry = {"name": "m", "provider": "p", "model": "x", **prices, **model}
    return {"providers": [provider], "models": [entry], "budget": budget}


def test_a_budget_is_read():
    found = parse_configuration(document({"per_day": 5, "file": "/x/day"}), "llm.toml").budget
    assert (found.per_request, found.per_day, found.file) == (None, 5.0, Path("/x/day"))
