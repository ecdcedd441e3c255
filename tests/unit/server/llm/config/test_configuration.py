"""What a configuration may say: its rules, the defaults of each dialect, and fallbacks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.config.configuration import (
    CAPABILITIES,
    parse_configuration,
    read_configuration,
)
from judged_server.settings import SettingsError


def document(**changes: Any) -> dict[str, Any]:
    provider = {"name": "p", "base_url": "https://p.test/v1"}
    model = {"name": "m", "provider": "p", "model": "x"}
    return {"providers": [provider], "models": [model], **changes}


def with_provider(**keys: Any) -> dict[str, Any]:
    whole = document()
    whole["providers"][0] |= keys
    return whole


def with_model(**keys: Any) -> dict[str, Any]:
    whole = document()
    whole["models"][0] |= keys
    return whole


@pytest.mark.parametrize(
    ("whole", "says"),
    [
        ([], "f must be a table"),
        ({}, r"there is no \[\[models\]\] table"),
        (document(currency="dollars"), "currency must be three capital letters"),
        (document(provider=[]), r"provider is not known here; did you mean providers\?"),
        (with_provider(timeout=3), r"\(p\): timeout is not known here; did you mean timeout_s\?"),
        (with_provider(api_key="sk-canary"), r"api_key does not belong here: .*key_env"),
        (with_provider(headers={"X": "canary"}), "headers can't be set"),
        (with_provider(key_env="sk-canary-1"), "key_env must be the name of an environment var"),
        (with_provider(key_env="K", key_file="/k"), "key_file and key_env are both there"),
        (with_provider(name="has space"), r"providers\[0\]: name must be a name of letters"),
        (with_provider(dialect="x"), f"dialect must be one of {', '.join(CAPABILITIES)}"),
        (with_provider(auth="basic"), "auth must be one of bearer, api-key"),
        (with_provider(organization="a\r\nb"), "organization must be an id"),
        (with_provider(max_concurrency=0), "max_concurrency must be greater than or equal to 1"),
        (with_provider(timeout_s="9"), "timeout_s must be a number"),
        (with_provider(allow_http="yes"), "allow_http must be true or false"),
        (document(providers=[]), r"models\[0\] \(m\): provider names no provider of this file"),
        (with_model(provider="q"), "names no provider of this file; add its"),
        (with_model(structured="yes"), "structured must be 'json_schema', 'json_object', "),
        (with_model(max_tokens_parameter="n"), "max_tokens_parameter must be 'max_tokens' or"),
        (with_model(input_per_million=1), "output_per_million is missing beside input_per_mill"),
        (with_model(model=" "), "model must be the provider's name"),
        (
            document(models=[{"name": "m", "provider": "p", "model": "x"}] * 2),
            r"models\[1\] \(m\): name is taken",
        ),
        (
            document(providers=[{"name": "p", "base_url": "https://p.test"}] * 2),
            r"providers\[1\] \(p\): name is taken",
        ),
        (
            document(
                models=[
                    {"name": name, "provider": "p", "model": "x", "default": True}
                    for name in ("m", "n")
                ]
            ),
            r"models\[1\] \(n\): default is true for another model",
        ),
    ],
)
def test_what_is_refused(whole, says):
    with pytest.raises(SettingsError, match=says) as caught:
        parse_configuration(whole, "f")
    assert "canary" not in str(caught.value)


def of_dialect(dialect: str, **keys: Any) -> dict[str, Any]:
    """A document of one provider and one model; `keys` are the model's."""
    return with_model(**keys) | {"providers": [{**document()["providers"][0], "dialect": dialect}]}


@pytest.mark.parametrize(
    ("dialect", "structured", "auth", "send_temperature", "send_seed"),
    [
        ("openai", "json_schema", "bearer", True, True),
        ("anthropic", "json_schema", "x-api-key", False, False),
        ("gemini", "json_schema", "x-goog-api-key", True, True),
    ],
)
def test_defaults_are_those_of_the_dialect(dialect, structured, auth, send_temperature, send_seed):
    found = parse_configuration(of_dialect(dialect), "f")
    assert (found.providers[0].dialect, found.providers[0].auth) == (dialect, auth)
    [model] = found.models
    assert (model.structured, model.send_temperature, model.send_seed) == (
        structured,
        send_temperature,
        send_seed,
    )


@pytest.mark.parametrize(
    ("dialect", "model", "says"),
    [
        ("anthropic", {"logprobs": True}, "logprobs is not for dialect"),
        ("anthropic", {"send_seed": True}, "send_seed is not for dialect"),
        ("anthropic", {"max_tokens_parameter": "max_tokens"}, "nothing like it; leave it out"),
        ("anthropic", {"structured": "json_object"}, "must be one of json_schema, tool, none"),
        ("gemini", {"max_tokens_parameter": "max_tokens"}, "max_tokens_parameter is not for dial"),
    ],
)
def test_what_a_dialect_lacks_is_refused(dialect, model, says):
    with pytest.raises(SettingsError, match=says) as caught:
        parse_configuration(of_dialect(dialect, **model), "f")
    assert "canary" not in str(caught.value)


class TestFake:
    def test_is_a_file_beside_the_configuration(self, tmp_path):
        path = tmp_path / "llm.toml"
        path.write_text(
            '[[providers]]\nname = "p"\ndialect = "fake"\nreplies = "replies.jsonl"\n'
            '[[models]]\nname = "m"\nprovider = "p"\nmodel = "x"\nstructured = "none"\n'
        )
        [provider] = read_configuration(path).providers
        assert provider.replies == tmp_path / "replies.jsonl"
        assert (provider.dialect, provider.base_url) == ("fake", "")

    @pytest.mark.parametrize(
        ("provider", "model", "says"),
        [
            ({}, {}, "replies is missing; it must be the path of a file"),
            ({"replies": 3}, {}, "replies must be a text, in quotes"),
            (
                {"replies": "r", "base_url": "https://p.test"},
                {},
                "base_url is not for dialect",
            ),
            ({"replies": "r", "key_env": "K"}, {}, "key_env is not for dialect"),
            ({"replies": "r"}, {"logprobs": True}, "logprobs is not for dialect"),
            ({"replies": "r"}, {"structured": "tool"}, "must be one of json_schema, none"),
        ],
    )
    def test_has_no_address_and_no_key(self, provider, model, says):
        whole = with_model(**model) | {"providers": [{"name": "p", "dialect": "fake", **provider}]}
        with pytest.raises(SettingsError, match=says):
            parse_configuration(whole, "f")


def with_fallbacks(**fallbacks: list[str]) -> dict[str, Any]:
    return document(
        models=[
            {"name": name, "provider": "p", "model": name, "fallback": chain}
            for name, chain in fallbacks.items()
        ]
    )


class TestFallbacks:
    @pytest.mark.parametrize(
        ("whole", "says"),
        [
            (with_fallbacks(a=["nobody"]), r"\(a\): fallback names no model of this file; add its"),
            (with_fallbacks(small=["smal"]), r"did you mean small\?"),
            (with_fallbacks(a=["a"]), r"\(a\): fallback names the model itself"),
            (with_fallbacks(a=["b", "b"], b=[]), "fallback names a model twice"),
            (with_fallbacks(a="b", b=[]), "fallback must be an array"),
            (with_fallbacks(a=[3]), r"fallback\[0\] must be a text, in quotes"),
        ],
    )
    def test_that_lead_nowhere_or_round_are_refused(self, whole, says):
        with pytest.raises(SettingsError, match=says):
            parse_configuration(whole, "f")


KEYS = (
    "base_url", "default", "dialect", "fallback", "key_env", "logprobs", "model", "name",
    "provider", "replies", "timeout_s", "x",
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["providers", "models", "currency", "x"]), VALUES))
def test_any_document_is_read_or_refused(whole):
    try:
        configuration = parse_configuration(whole, "f")
    except SettingsError:
        return
    assert configuration.models
