from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.chat import Prices
from judged_server.llm.configuration import (
    Configuration,
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
    parse_configuration,
    read_configuration,
)
from judged_server.settings import SettingsError

WHOLE = """
currency = "EUR"

[[providers]]
name = "cloud"
dialect = "openai"
base_url = "https://api.example.com/v1/"
key_env = "CLOUD_KEY"
auth = "api-key"
organization = "org-1"
project = "proj_2"
ca_file = "/etc/ca.pem"
max_concurrency = 64
requests_per_minute = 500
tokens_per_minute = 200_000
timeout_s = 20
min_bytes_per_s = 0

[[providers]]
name = "here"
base_url = "http://127.0.0.1:8080/v1"
key_file = "/run/secrets/here"

[[models]]
name = "small"
provider = "here"
model = "smollm2"
structured = "none"

[[models]]
name = "large"
provider = "cloud"
model = "gpt-4o-mini"
default = true
structured = "tool"
logprobs = true
max_tokens_parameter = "max_completion_tokens"
send_temperature = false
send_seed = false
input_per_million = 0.15
output_per_million = 0.6
"""


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


def test_a_whole_file(tmp_path):
    path = tmp_path / "llm.toml"
    path.write_text(WHOLE)
    cloud = ProviderConfiguration(
        name="cloud",
        base_url="https://api.example.com/v1",
        key_env="CLOUD_KEY",
        auth="api-key",
        organization="org-1",
        project="proj_2",
        ca_file=Path("/etc/ca.pem"),
        max_concurrency=64,
        requests_per_minute=500,
        tokens_per_minute=200_000,
        timeout_s=20,
        min_bytes_per_s=0,
    )
    here = ProviderConfiguration(
        "here", "http://127.0.0.1:8080/v1", key_file=Path("/run/secrets/here")
    )
    large = ModelConfiguration(
        "large",
        "cloud",
        "gpt-4o-mini",
        Structured.TOOL,
        logprobs=True,
        max_tokens_parameter="max_completion_tokens",
        send_temperature=False,
        send_seed=False,
        prices=Prices(0.15, 0.6),
    )
    small = ModelConfiguration("small", "here", "smollm2", Structured.NONE)
    assert read_configuration(path) == Configuration("EUR", (cloud, here), (large, small))


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1",
        "https://[2001:db8::1]:8443/v1",
        "http://localhost:11434/v1",
        "http://127.0.0.1:8080",
        "http://127.8.9.1/v1",
        "http://[::1]:8080/v1",
    ],
)
def test_urls_that_are_allowed(url):
    [provider] = parse_configuration(with_provider(base_url=url), "f").providers
    assert provider.base_url == url


@pytest.mark.parametrize(
    "url",
    [
        "http://api.openai.com/v1",
        "http://10.0.0.1/v1",
        "http://2130706433/v1",
        "http://0x7f.1/v1",
        "http://0.0.0.0/v1",
        "http://[::ffff:10.0.0.1]/v1",
        "http://localhost.evil.test/v1",
        "http://127.0.0.1.evil.test/v1",
        "https://user:canary@p.test/v1",
        "http://127.0.0.1@evil.test/v1",
        "https://canary@p.test/v1",
        "https://p.test\\@evil.test/v1",
        "https://p.test/v1?api-version=1",
        "https://p.test/v1#x",
        "https://p.test/v1?",
        "https://p.test:99999/v1",
        "https://p.test:port/v1",
        "https:///v1",
        "https://",
        "p.test/v1",
        "//p.test/v1",
        "file:///etc/passwd",
        "ftp://p.test/",
        "gopher://127.0.0.1/",
        "unix:/run/x",
        "https://[::1/v1",
        "https://p.test/ v1",
        "https://p.test/v1\r\nX: y",
        "https://exämple.test/v1",
        "",
        7,
        None,
    ],
)
def test_urls_that_are_not(url):
    with pytest.raises(SettingsError, match=r"f: providers\[0\] \(p\): base_url") as caught:
        parse_configuration(with_provider(base_url=url), "f")
    assert "canary" not in str(caught.value)


def test_plain_http_where_the_operator_allows_it():
    whole = with_provider(base_url="http://10.0.0.1/v1", allow_http=True)
    assert parse_configuration(whole, "f").providers[0].base_url == "http://10.0.0.1/v1"


@pytest.mark.parametrize(
    ("whole", "says"),
    [
        ([], "f must be a table"),
        ({}, r"there is no \[\[models\]\] table"),
        (document(providers={}), r"providers must be tables; begin each with \[\[providers\]\]"),
        (document(currency="dollars"), "currency must be three capital letters"),
        (document(provider=[]), r"provider is not known; did you mean providers\?"),
        (with_provider(timeout=3), r"\(p\): timeout is not known; did you mean timeout_s\?"),
        (with_provider(api_key="sk-canary"), r"api_key does not belong here: .*key_env"),
        (with_provider(headers={"X": "canary"}), "headers can't be set"),
        (with_provider(key_env="sk-canary-1"), "key_env must be the name of an environment var"),
        (with_provider(key_env="K", key_file="/k"), "key_file and key_env are both there"),
        (with_provider(name="has space"), r"providers\[0\]: name must be a name of letters"),
        (with_provider(dialect="anthropic"), "dialect must be one of openai"),
        (with_provider(auth="basic"), "auth must be one of bearer, api-key"),
        (with_provider(organization="a\r\nb"), "organization must be an id"),
        (with_provider(max_concurrency=0), "max_concurrency must be a whole number from 1"),
        (with_provider(requests_per_minute=0), "requests_per_minute must be a number from 1"),
        (with_provider(timeout_s=0), "timeout_s must be a number from 0.1"),
        (with_provider(timeout_s="9"), "timeout_s must be a number"),
        (with_provider(allow_http="yes"), "allow_http must be true or false"),
        (document(providers=[]), r"models\[0\] \(m\): provider names no provider of this file"),
        (with_model(provider="q"), "names no provider of this file; add its"),
        (with_model(structured="yes"), "structured must be one of json_schema, json_object"),
        (with_model(max_tokens_parameter="n"), "max_tokens_parameter must be one of"),
        (with_model(input_per_million=1), "input_per_million and output_per_million go together"),
        (with_model(input_per_million=-1), "input_per_million must be a number"),
        (with_model(model=" "), "model must be the provider's name"),
        (with_model(temperature=1), "temperature is not known"),
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


def test_a_provider_that_is_nearly_right_is_named():
    whole = document(models=[{"name": "m", "provider": "opnai", "model": "x"}])
    whole["providers"][0]["name"] = "openai"
    with pytest.raises(SettingsError, match=r"did you mean openai\?"):
        parse_configuration(whole, "f")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'key = "sk-canary\n', "is not TOML: see at line 1"),
        (b"[[providers]\n", "is not TOML: see at line 1"),
        (b"\xff\xfe", "is not UTF-8"),
        (b'a = "sk-canary', "is not TOML: see at end of document"),
        (b'a = 1\na = "sk-canary"\n', "is not TOML: see at line 2"),
    ],
)
def test_files_that_are_not_toml(tmp_path, content, says):
    path = tmp_path / "llm.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=says) as caught:
        read_configuration(path)
    assert str(path) in str(caught.value)
    assert "canary" not in str(caught.value)


DOCS = (Path(__file__).parents[4] / "docs" / "providers.md").read_text()


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL))
def test_the_examples_of_the_docs_are_read(example):
    assert parse_configuration(tomllib.loads(example), "docs").models


def test_the_docs_describe_every_key():
    for key in re.findall(r"^(\w+) = ", WHOLE, re.MULTILINE):
        assert f"`{key}`" in DOCS, key


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(SettingsError, match=r"none\.toml can't be read: No such file"):
        read_configuration(tmp_path / "none.toml")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["name", "provider", "model", "base_url", "key_env", "timeout_s", "default", "x"]
            ),
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
