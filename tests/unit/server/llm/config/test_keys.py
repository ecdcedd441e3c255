from __future__ import annotations

import traceback

import pytest
from judged_server.llm.config.configuration import KeyMissing, ProviderConfiguration, key_of

CANARY = "sk-canary-77"
BY_VARIABLE = ProviderConfiguration("p", key_env="K")


def by_file(path, content=None):
    if content is not None:
        path.write_bytes(content)
    return ProviderConfiguration("p", key_file=path)


def test_from_the_environment_or_a_file(tmp_path):
    secret = key_of(BY_VARIABLE, {"K": f" {CANARY}\n"})
    assert secret.get_secret_value() == CANARY
    assert CANARY not in f"{secret} {secret!r} {[secret]} {secret!s:>9}"
    found = key_of(by_file(tmp_path / "key", f"{CANARY}\n".encode()), {})
    assert found.get_secret_value() == CANARY
    assert key_of(ProviderConfiguration("p"), {"K": CANARY}) is None


@pytest.mark.parametrize("environ", [{}, {"K": ""}, {"K": " \n"}])
def test_missing_from_the_environment(environ):
    with pytest.raises(KeyMissing, match="variable K is not set; set it to the key"):
        key_of(BY_VARIABLE, environ)


@pytest.mark.parametrize("bad", ["two words", "a\r\nX-Evil: 1", "schlüssel", "a\x00b", "a\tb"])
def test_what_no_header_may_hold_is_refused_unseen(bad, tmp_path):
    file = by_file(tmp_path / "key", f"{CANARY}{bad}".encode())
    for provider in (BY_VARIABLE, file):
        with pytest.raises(KeyMissing, match="characters that no key has") as caught:
            key_of(provider, {"K": CANARY + bad})
        assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "can't be read"), (b"\n", "is empty"), (b"x" * 100_000, "too large")],
)
def test_files_that_hold_no_key(tmp_path, content, says):
    with pytest.raises(KeyMissing, match=says):
        key_of(by_file(tmp_path / "key", content), {})
    with pytest.raises(KeyMissing, match="can't be read"):
        key_of(by_file(tmp_path), {})
