"""Clients whose certificate files are replaced while they are used."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from judged import Client, QueryGroup
from judged.credentials import Tls

from tests.fakes.authority import Authority
from tests.integration.server_process import ServerProcess, running_server, until
from tests.integration.tenant_files import new_token

GROUPS = [QueryGroup("q", ["a b c"], ["a b c", "x y z"], "1")]
JUDGES = {"a": "exact", "b": "token_overlap", "c": "span"}


@dataclass(frozen=True)
class World:
    """A server that shows each tenant a judge of its own, and files that clients show."""

    server: ServerProcess
    shown: Tls
    pairs: dict[str, tuple[Path, Path]]

    def replace(self, file: int, tenant: str) -> None:
        """Replace the certificate (0) or the key (1) by that of a tenant."""
        target = Path((self.shown.certificate, self.shown.key)[file] or "")
        scratch = target.with_suffix(".new")
        shutil.copy(self.pairs[tenant][file], scratch)
        scratch.replace(target)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    authority, path = Authority(tmp_path), tmp_path / "tenants.toml"
    path.write_text(
        "".join(
            f'[tenants.{name}]\nuris = ["spiffe://x/{name}"]\njudges = ["{judge}"]\n'
            for name, judge in JUDGES.items()
        )
    )
    new_token(path, "a")
    certificate, key = authority.server()
    pairs = {name: authority.client(f"spiffe://x/{name}", name) for name in JUDGES}
    files = authority.client("spiffe://x/a", "shown")
    with running_server(
        *("--tenants", str(path), "--certificate", str(certificate), "--private-key", str(key)),
        *("--client-ca", str(authority.ca)),
    ) as server:
        yield World(server, Tls(authority.ca, *files), pairs)


def tenant_of(client: Client) -> str:
    judge = client.server_info().default_judge
    return next(name for name, theirs in JUDGES.items() if theirs == judge)


def test_calls_show_what_is_there_now(world: World):
    with Client(world.server.address, credentials=world.shown) as client:
        assert tenant_of(client) == "a"
        world.replace(1, "b")  # half of the pair: what was before counts on
        assert tenant_of(client) == "a"
        world.replace(0, "b")
        until(lambda: tenant_of(client) == "b")


def test_a_stream_under_way_goes_on(world: World):
    replaced = threading.Event()

    def chunks() -> Iterator[list[QueryGroup]]:
        yield GROUPS
        replaced.wait(30)
        yield GROUPS

    with Client(world.server.address, credentials=world.shown) as client:
        judged = client.judge_stream(chunks(), "exact")
        next(judged)
        for file in (0, 1):
            world.replace(file, "b")
        until(lambda: tenant_of(client) == "b")
        replaced.set()
        assert len(list(judged)) == 1  # "exact" is not there for b
