from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from judged_server.settings import SettingsError
from judged_server.tenants import FileDirectory, Identity, changing, tokens_beside

SOON = timedelta(hours=1)


def new_token(path: Path, tenant: str) -> str:
    with changing(tokens_beside(path)) as held:
        held[0], token = held[0].with_new(tenant, datetime.now(UTC), SOON)
    return token


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "tenants.toml"
    file.write_text('[tenants.a]\nuris = ["x:a"]\n[tenants.b]\n')
    return file


def looked_twice(directory: FileDirectory) -> bool:
    directory.refresh()
    return directory.refresh()


def named(identity: Identity | None) -> str | None:
    return None if identity is None else identity.tenant.name


def test_who_shows_what(path: Path):
    a, b = new_token(path, "a"), new_token(path, "b")
    directory = FileDirectory(path)
    assert (named(directory.by_token(a)), named(directory.by_token(b))) == ("a", "b")
    assert named(directory.by_uri("x:a")) == "a"
    for stranger in ("", a[:-1], a + "x", "judged_", "\ud800"):
        assert directory.by_token(stranger) is None
    assert directory.by_uri("x:b") is None


def test_a_token_of_two_tenants_is_refused(path: Path):
    new_token(path, "a")
    tokens = tokens_beside(path)
    held = json.loads(tokens.read_text())
    [token] = held["tokens"]
    tokens.write_text(json.dumps(held | {"tokens": [token, token | {"tenant": "b"}]}))
    with pytest.raises(SettingsError, match="restore it, or remove it and make new tokens"):
        FileDirectory(path)


def test_revoked_credentials_end_to_count(path: Path):
    token = new_token(path, "a")
    directory = FileDirectory(path)
    shown = [directory.by_token(token), directory.by_uri("x:a")]
    assert all(each is not None and directory.counts(each) for each in shown)
    with changing(tokens_beside(path)) as held:
        held[0] = held[0].without("a")
    assert looked_twice(directory)
    assert [directory.counts(each) for each in shown if each] == [False, True]
    path.write_text("[tenants.b]\n")
    assert looked_twice(directory)
    assert [directory.counts(each) for each in shown if each] == [False, False]


def test_a_token_is_revoked_also_while_the_file_of_tenants_is_bad(path: Path):
    token = new_token(path, "a")
    directory = FileDirectory(path)
    path.write_text("[tenants.a")
    with changing(tokens_beside(path)) as held:
        held[0] = held[0].without("a")
    assert not looked_twice(directory)
    assert directory.by_token(token) is None
    assert named(directory.by_uri("x:a")) == "a"


@pytest.mark.parametrize(
    "half",
    [
        "",
        "\n",
        "# tenants\n",
        "[tenants]\n",
        "[tenants.b]\n",
        "[tenants.a]\n[tenants.b]\n",
        "[tenants.a]\nuris = [",
        "\0\0\0",
        "\ufeff",
    ],
)
def test_a_file_counts_once_it_is_found_again_as_it_was(path: Path, half: str):
    tokens, whole = [new_token(path, tenant) for tenant in "ab"], path.read_text()
    directory = FileDirectory(path)
    for text in (half, whole, half, f"{whole}# more\n"):
        path.write_text(text)
        directory.refresh()
        assert all(directory.by_token(token) for token in tokens)
        assert named(directory.by_uri("x:a")) == "a"
    assert directory.problem == ""
    assert directory.refresh()


@pytest.mark.parametrize("bad", [b"[tenants.a", b"\xff", b"# none\n", None])
@pytest.mark.parametrize("of_tokens", [False, True])
def test_a_bad_file_changes_nothing_and_is_told_once(
    path: Path, bad: bytes | None, of_tokens: bool, capfd: pytest.CaptureFixture[str]
):
    token = new_token(path, "a")
    directory = FileDirectory(path)
    file = tokens_beside(path) if of_tokens else path
    good = file.read_bytes()
    if bad is None:
        file.unlink()
    else:
        file.write_bytes(bad)
    assert not looked_twice(directory)
    assert not looked_twice(directory)
    logged = [json.loads(line)["event"] for line in capfd.readouterr().err.splitlines()]
    assert logged == ["bad tenants"]
    assert str(file) in directory.problem
    assert named(directory.by_token(token)) == "a"
    file.write_bytes(good)
    assert looked_twice(directory)
    assert directory.problem == ""


def test_a_file_may_begin_without_tenants(tmp_path: Path):
    path = tmp_path / "tenants.toml"
    path.write_text("")
    token = new_token(path, "a")
    directory = FileDirectory(path)
    path.write_text("# soon\n")
    assert looked_twice(directory)
    path.write_text("[tenants.a]\n")
    assert looked_twice(directory)
    assert named(directory.by_token(token)) == "a"
