from __future__ import annotations

import pytest
from judged_server.llm.config import ProviderConfiguration, key_of

CANARY = "sk-canary-77"
BY_VARIABLE = ProviderConfiguration("p", key_env="K")


def by_file(path, content=None):
    if content is not None:
        path.write_bytes(content)
    return ProviderConfiguration("p", key_file=path)


def test_from_the_environment_or_a_file(tmp_path):
    secret, problem = key_of(BY_VARIABLE, {"K": f" {CANARY}\n"})
    assert problem == ""
    assert secret.get_secret_value() == CANARY
    assert CANARY not in f"{secret} {secret!r} {[secret]} {secret!s:>9}"
    found, _ = key_of(by_file(tmp_path / "key", f"{CANARY}\n".encode()), {})
    assert found.get_secret_value() == CANARY
    assert key_of(ProviderConfiguration("p"), {"K": CANARY}) == (None, "")


@pytest.mark.parametrize("environ", [{}, {"K": ""}, {"K": " \n"}])
def test_missing_from_the_environment(environ):
    found, problem = key_of(BY_VARIABLE, environ)
    assert found is None
    assert "variable K is not set; set it to the key" in problem


@pytest.mark.parametrize("bad", ["two words", "a\r\nX-Evil: 1", "schlüssel", "a\x00b", "a\tb"])
def test_what_no_header_may_hold_is_refused_unseen(bad, tmp_path):
    file = by_file(tmp_path / "key", f"{CANARY}{bad}".encode())
    for provider in (BY_VARIABLE, file):
        found, problem = key_of(provider, {"K": CANARY + bad})
        assert found is None
        assert "characters that no key has" in problem
        assert CANARY not in problem


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "can't be read"), (b"\n", "is empty"), (b"x" * 100_000, "is larger than")],
)
def test_files_that_hold_no_key(tmp_path, content, says):
    assert says in key_of(by_file(tmp_path / "key", content), {})[1]
    assert "can't be read" in key_of(by_file(tmp_path), {})[1]
