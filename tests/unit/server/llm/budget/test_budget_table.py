from __future__ import annotations

from pathlib import Path

import pytest
from judged_server.llm.chat import Prices
from judged_server.llm.config import parse_configuration
from judged_server.llm.models import ChatModels


def document(budget, **model):
    provider = {"name": "p", "base_url": "https://example.com/v1"}
    prices = {"input_per_million": 1, "output_per_million": 2}
    entry = {"name": "m", "provider": "p", "model": "x", **prices, **model}
    return {"providers": [provider], "models": [entry], "budget": budget}


def test_a_budget_is_read():
    found = parse_configuration(document({"per_day": 5, "file": "/x/day"}), "llm.toml").budget
    assert (found.per_request, found.per_day, found.file) == (None, 5.0, Path("/x/day"))


UNPRICED = {"unpriced_input_per_million": 10, "unpriced_output_per_million": 30}


@pytest.mark.parametrize("budget", [UNPRICED, {"per_day": 1, **UNPRICED}])
def test_models_without_prices_count_by_those_that_are_named_for_them(budget):
    content = document(budget)
    bare = {"name": "bare", "provider": "p", "model": "y"}
    content["models"] = [*content["models"], bare]
    models = ChatModels(parse_configuration(content, "llm.toml"), {})
    assert models.get("m").card.prices == Prices(1, 2)
    assert models.get("bare").card.prices == Prices(10, 30)
