from __future__ import annotations

import traceback

import pytest
from judged_server.llm.config.secrets import KeyMissing, key_from_environment, key_from_file

CANARY = "sk-canary-77"


def test_from_the_environment():
    secret = key_from_environment("K", {"K": f" {CANARY}\n"})
    assert secret.get_secret_value() == CANARY
    assert CANARY not in f"{secret} {secret!r} {[secret]} {secret!s:>9}"


def test_from_a_file(tmp_path):
    path = tmp_path / "key"
    path.write_text(f"{CANARY}\n")
    assert key_from_file(path).get_secret_value() == CANARY


@pytest.mark.parametrize("environ", [{}, {"K": ""}, {"K": " \n"}])
def test_missing_from_the_environment(environ):
    with pytest.raises(KeyMissing, match="variable K is not set; set it to the key"):
        key_from_environment("K", environ)


@pytest.mark.parametrize("bad", ["two words", "a\r\nX-Evil: 1", "schlüssel", "a\x00b", "a\tb"])
def test_what_no_header_may_hold_is_refused_unseen(bad, tmp_path):
    path = tmp_path / "key"
    path.write_bytes(f"{CANARY}{bad}".encode())
    for read in (
        lambda: key_from_environment("K", {"K": CANARY + bad}),
        lambda: key_from_file(path),
    ):
        with pytest.raises(KeyMissing, match="characters that no key has") as caught:
            read()
        assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_files_that_hold_no_key(tmp_path):
    with pytest.raises(KeyMissing, match="can't be read"):
        key_from_file(tmp_path / "none")
    with pytest.raises(KeyMissing, match="can't be read"):
        key_from_file(tmp_path)
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(KeyMissing, match="is empty"):
        key_from_file(tmp_path / "empty")
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    with pytest.raises(KeyMissing, match="too large"):
        key_from_file(tmp_path / "large")
