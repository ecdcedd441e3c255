"""What a configuration may say: its rules, the defaults of each dialect, and fallbacks."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from judged_server.llm.config import (
    parse_configuration,
    read_configuration,
)
from judged_server.settings import SettingsError

DATA = Path(__file__).parents[4] / "data" / "refused_llm_configs.toml"
CASES = tomllib.loads(DATA.read_text())


def document(provider: dict[str, Any] | None = None, model: dict[str, Any] | None = None) -> Any:
    """A configuration of one provider and one model, with these keys beside those it needs."""
    provider = {"name": "p", "base_url": "https://p.test/v1", **(provider or {})}
    return {
        "providers": [provider],
        "models": [{"name": "m", "provider": "p", "model": "x", **(model or {})}],
    }


@pytest.mark.parametrize("case", CASES["refused"], ids=lambda case: case["says"][:40])
def test_what_is_refused(case: dict[str, Any]):
    whole = case.get("whole", document(case.get("provider"), case.get("model")))
    with pytest.raises(SettingsError, match=case["says"]) as caught:
        parse_configuration(whole, "f")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("url", CASES["allowed_urls"])
def test_urls_that_are_allowed(url: str):
    [provider] = parse_configuration(document({"base_url": url}), "f").providers
    assert provider.base_url == url


@pytest.mark.parametrize("url", CASES["refused_urls"])
def test_urls_that_are_not(url: object):
    with pytest.raises(SettingsError, match=r"f: providers\[0\] \(p\): base_url") as caught:
        parse_configuration(document({"base_url": url}), "f")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    ("dialect", "structured", "auth", "send_temperature", "send_seed"),
    [
        ("openai", "json_schema", "bearer", True, True),
        ("anthropic", "json_schema", "x-api-key", False, False),
        ("gemini", "json_schema", "x-goog-api-key", True, True),
    ],
)
def test_defaults_are_those_of_the_dialect(dialect, structured, auth, send_temperature, send_seed):
    found = parse_configuration(document({"dialect": dialect}), "f")
    assert (found.providers[0].dialect, found.providers[0].auth) == (dialect, auth)
    [model] = found.models
    assert (model.structured, model.send_temperature, model.send_seed) == (
        structured,
        send_temperature,
        send_seed,
    )


def test_a_fake_provider_is_a_file_beside_the_configuration(tmp_path):
    path = tmp_path / "llm.toml"
    path.write_text(
        '[[providers]]\nname = "p"\ndialect = "fake"\nreplies = "replies.jsonl"\n'
        '[[models]]\nname = "m"\nprovider = "p"\nmodel = "x"\nstructured = "none"\n'
    )
    [provider] = read_configuration(path).providers
    assert provider.replies == tmp_path / "replies.jsonl"
    assert (provider.dialect, provider.base_url) == ("fake", "")
