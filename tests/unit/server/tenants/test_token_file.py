from __future__ import annotations

import json
import shutil
from argparse import Namespace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from judged_server.commands.tenants import manage_tenants
from judged_server.settings import SettingsError, load
from judged_server.tenants import (
    TokenFile,
    changing,
    hash_of,
    read_tokens,
    tokens_beside,
)

NOW = datetime.now(UTC).replace(microsecond=0)
HOUR = timedelta(hours=1)


def test_two_count_at_once_and_no_third():
    file, first = TokenFile("00" * 32).with_new("a", NOW, HOUR)
    file, second = file.with_new("a", NOW, HOUR)
    assert [each.sha256 for each in file.of("a", NOW)] == [hash_of(first), hash_of(second)]
    file, third = file.with_new("a", NOW, HOUR)
    assert [each.sha256 for each in file.of("a", NOW)] == [hash_of(second), hash_of(third)]
    assert [each.sha256 for each in file.of("a", NOW + HOUR)] == [hash_of(third)]


def test_tokens_are_of_256_bits_and_never_in_the_file(tmp_path: Path):
    path = tmp_path / "t.tokens.json"
    with changing(path) as held:
        held[0], token = held[0].with_new("a", NOW, HOUR)
    assert len(token) == len("judged_") + 43
    assert token not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_tokens(path).of("a", NOW)[0].sha256 == hash_of(token)


def test_a_change_keeps_who_may_read_the_file(tmp_path: Path):
    path = tmp_path / "t.tokens.json"
    with changing(path):
        pass
    path.chmod(0o640)
    secret = read_tokens(path).secret
    with changing(path) as held:
        held[0], _ = held[0].with_new("a", NOW, HOUR)
    assert path.stat().st_mode & 0o777 == 0o640
    assert read_tokens(path).secret == secret


def test_the_lock_is_its_owners_alone(tmp_path: Path):
    path = tmp_path / "t.tokens.json"
    lock = tmp_path / ".t.tokens.json.lock"
    lock.touch(0o644)  # as earlier versions left it
    with changing(path):
        assert lock.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        json.dumps({"version": 1, "secret": "00", "tokens": []}),
        json.dumps({"version": 1, "secret": "00" * 32, "tokens": [{}]}),
        json.dumps({"version": 1, "secret": "00" * 32})[:-3],
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, content: str):
    path = tmp_path / "t.tokens.json"
    path.write_text(content)
    with pytest.raises(SettingsError, match="restore it, or remove it"):
        read_tokens(path)


def test_the_list_shows_which_tenants_and_servers_find_each_other_s_replies(tmp_path, capsys):
    def ids(name: str, tokens_of: str) -> list[str]:
        path = tmp_path / f"{name}.toml"
        path.write_text(
            '[tenants.a]\ncache = "shared:x"\n[tenants.b]\ncache = "shared:x"\n[tenants.c]\n'
        )
        with changing(tokens_beside(tmp_path / f"{tokens_of}.toml")) as held:
            held[0], _ = held[0].with_new("a", NOW, HOUR)
        if name != tokens_of:
            shutil.copy(tokens_beside(tmp_path / f"{tokens_of}.toml"), tokens_beside(path))
        assert manage_tenants(Namespace(action="list"), load({"tenants": str(path)})) == 0
        return [
            line.rpartition(" ")[2]
            for line in capsys.readouterr().out.splitlines()
            if "cache" in line
        ]

    first, copy, other = ids("first", "first"), ids("copy", "first"), ids("other", "other")
    assert first[0] == first[1] != first[2]
    assert copy == first
    assert not set(other) & set(first)
