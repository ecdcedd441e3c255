"""Where a provider may be: which base_url is taken, and which is refused at the start."""

from __future__ import annotations

from typing import Any

import pytest
from judged_server.llm.config.configuration import parse_configuration
from judged_server.settings import SettingsError


def with_provider(**keys: Any) -> dict[str, Any]:
    model = {"name": "m", "provider": "p", "model": "x"}
    return {"providers": [{"name": "p", **keys}], "models": [model]}


@pytest.mark.parametrize(
    "url",
    [
        "https://api.openai.com/v1",
        "https://[2001:db8::1]:8443/v1",
        "http://localhost:11434/v1",
        "http://127.0.0.1:8080",
        "http://127.8.9.1/v1",
        "http://[::1]:8080/v1",
        "https://10.0.0.1/v1",
        "https://7b.test/v1",
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
