"""The file of a configuration: as a whole, beside those it names, and as the docs show it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from judged_server.llm.chat import Prices
from judged_server.llm.config import (
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
ca_file = "/etc/ca.pem"
allow_private = true
max_concurrency = 64
requests_per_minute = 500
tokens_per_minute = 200_000
timeout_s = 20

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
structured = "json_object"
max_tokens_parameter = "max_completion_tokens"
send_temperature = false
send_seed = false
schema_bounds = false
input_per_million = 0.15
output_per_million = 0.6
"""


def test_a_whole_file(tmp_path):
    path = tmp_path / "llm.toml"
    path.write_text(WHOLE)
    cloud = ProviderConfiguration(
        name="cloud",
        base_url="https://api.example.com/v1",
        key_env="CLOUD_KEY",
        auth="api-key",
        ca_file=Path("/etc/ca.pem"),
        max_concurrency=64,
        requests_per_minute=500,
        tokens_per_minute=200_000,
        timeout_s=20,
        allow_private=True,
    )
    here = ProviderConfiguration(
        "here", "http://127.0.0.1:8080/v1", key_file=Path("/run/secrets/here")
    )
    large = ModelConfiguration(
        "large",
        "cloud",
        "gpt-4o-mini",
        Structured.JSON_OBJECT,
        max_tokens_parameter="max_completion_tokens",
        send_temperature=False,
        send_seed=False,
        schema_bounds=False,
        input_per_million=0.15,
        output_per_million=0.6,
        default=True,
    )
    small = ModelConfiguration("small", "here", "smollm2", Structured.NONE)
    assert read_configuration(path) == Configuration("EUR", (cloud, here), (large, small))
    assert (large.prices, small.prices) == (Prices(0.15, 0.6), None)


class TestFilesItNames:
    CONTENT = """
[budget]
per_day = 1.0
file = "state/spent.sqlite"
[[providers]]
name = "p"
base_url = "https://p.test/v1"
key_file = "key"
ca_file = "../ca.pem"
[[models]]
name = "m"
provider = "p"
model = "x"
input_per_million = 1
output_per_million = 1
"""

    def test_are_looked_for_beside_it(self, tmp_path, monkeypatch):
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "llm.toml").write_text(self.CONTENT)
        monkeypatch.chdir(tmp_path)
        found = read_configuration(Path("conf/llm.toml"))
        assert found.providers[0].key_file == Path("conf/key")
        assert found.providers[0].ca_file == Path("conf/../ca.pem")
        assert found.budget.file == Path("conf/state/spent.sqlite")

    def test_stay_where_they_are_when_absolute(self, tmp_path):
        path = tmp_path / "llm.toml"
        path.write_text(re.sub(r'_?file = "', r"\g<0>/srv/", self.CONTENT))
        found = read_configuration(path)
        assert found.providers[0].key_file == Path("/srv/key")
        assert found.providers[0].ca_file == Path("/srv/../ca.pem")
        assert found.budget.file == Path("/srv/state/spent.sqlite")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'key = "sk-canary\n', r"is not TOML: .*\(at line 1, column 17\)$"),
        (b"[[providers]\n", r"is not TOML: .*\(at line 1, column 12\)$"),
        (b"\xff\xfe", "is not UTF-8"),
        (b'a = "sk-canary', "is not TOML: "),
        (b'a = 1\na = "sk-canary"\n', "is not TOML: Cannot overwrite"),
        (b"a = 'sk-canary'\nb = " + b"[" * 9999, "is not TOML: "),
        (b"a = " + b"{a = " * 9999, "is not TOML: "),
        (b"a = 'sk-canary'\nb = " + b"9" * 9999, "is not TOML: "),
    ],
)
def test_files_that_are_not_toml(tmp_path, content, says):
    path = tmp_path / "llm.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=says) as caught:
        read_configuration(path)
    assert str(path) in str(caught.value)
    assert "canary" not in str(caught.value)


DOCS = (Path(__file__).parents[5] / "docs" / "providers.md").read_text()
EXAMPLES = re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL)
PROVIDERS = re.findall(r"^\| \[([^]]+)\]\(#\S+\) \| (`.*`) \| (`.*`) \|$", DOCS, re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_examples_of_the_docs_are_read(example):
    assert parse_configuration(tomllib.loads(example), "docs").models


@pytest.mark.parametrize(("name", "provider", "model"), PROVIDERS)
def test_the_keys_of_each_provider_are_read(name, provider, model):
    tables = [
        {"name": name.lower().replace(" ", "-"), **tomllib.loads(keys.replace("<br>", "\n"))}
        for keys in (provider.replace("`", ""), model.replace("`", ""))
    ]
    tables[1]["provider"] = tables[0]["name"]
    read = parse_configuration({"providers": tables[:1], "models": tables[1:]}, "docs")
    assert [each.model for each in read.models] == [tables[1]["model"]]


def test_the_docs_describe_every_key():
    for key in [*re.findall(r"^(\w+) = ", WHOLE, re.MULTILINE), "replies"]:
        assert f"`{key}`" in DOCS, key
