"""Addresses that keep calling without a valid credential are held off; those with one never are."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from judged import Client
from judged.credentials import Token
from judged.errors import JudgedError

from tests.integration.access.test_tls import wait_for_line
from tests.integration.http_calls import ask, http_address
from tests.integration.server.test_monitoring import get
from tests.integration.server_process import ServerProcess, running_server, until
from tests.integration.tenant_files import new_token

MOST = 2
"""A minute, so that the time between two calls gives none back, however busy the machine is."""


@dataclass(frozen=True)
class World:
    server: ServerProcess
    token: str
    audit_log: Path
    socket: Path

    def outcome(self, token: str, target: str = "") -> tuple[str, str]:
        """Return the code and the reason of a call, tried once."""
        target = target or self.server.address
        with Client(target, credentials=Token(token), max_retries=0, timeout=20) as client:
            try:
                client.server_info()
            except JudgedError as error:
                return error.code, error.reason
        return "OK", ""

    def audited(self) -> list[str]:
        return [json.loads(line)["code"] for line in self.audit_log.read_text().splitlines()]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    path, audit_log, socket = tmp_path / "tenants.toml", tmp_path / "audit", tmp_path / "socket"
    path.write_text(f'[tenants.a]\nsockets = [{{ path = "{socket}" }}]\n')
    token = new_token(path, "a")
    with running_server(
        *("--tenants", str(path), "--failed-calls-per-minute", str(MOST)),
        *("--http-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"),
        *("--audit-log", str(audit_log)),
    ) as server:
        yield World(server, token, audit_log, socket)


def test_strangers_are_held_off_and_tenants_are_not(world: World):
    for _ in range(MOST):
        assert world.outcome("judged_nobody") == ("UNAUTHENTICATED", "UNAUTHENTICATED")
    limited = ("RESOURCE_EXHAUSTED", "AUTHENTICATION_LIMIT")
    assert world.outcome("judged_nobody") == limited
    assert world.outcome(world.token) == ("OK", "")

    # By HTTP too: it is one count for both ports, and what is refused is not read.
    http = http_address(world.server)
    told = ask(http, "/v1/GetServerInfo", b"\xff\xff", {"Authorization": "Bearer judged_nobody"})
    assert (told.status, told.reason) == (429, "AUTHENTICATION_LIMIT")
    assert 0 < int(told.headers["retry-after"]) <= 60
    good = {"Authorization": f"Bearer {world.token}"}
    assert ask(http, "/v1/GetServerInfo", {}, good).status == 200

    # Who comes by a socket has no address, and is told what it is told elsewhere.
    for _ in range(MOST + 2):
        assert world.outcome("judged_nobody", f"unix:{world.socket}")[0] == "UNAUTHENTICATED"

    assert wait_for_line(world.server, "failed calls limited")["address"] == "127.0.0.1"
    metrics = get(wait_for_line(world.server, "ready")["metrics"], "/metrics")[2]
    assert 'judged_refusals_total{reason="AUTHENTICATION_LIMIT"} 2.0' in metrics
    tried = MOST + MOST + 2
    until(lambda: world.audited().count("UNAUTHENTICATED") == tried)
    assert "RESOURCE_EXHAUSTED" not in world.audited()


def test_the_limit_is_taken_over_by_sighup(tmp_path: Path):
    path, config = tmp_path / "tenants.toml", tmp_path / "judged.toml"
    path.write_text("[tenants.a]\n")
    new_token(path, "a")
    config.write_text("failed_calls_per_minute = 1\n")
    with running_server("--tenants", str(path), "--config", str(config)) as server:
        world = World(server, "", path, path)
        codes = [world.outcome("judged_nobody")[0] for _ in range(2)]
        assert codes == ["UNAUTHENTICATED", "RESOURCE_EXHAUSTED"]
        config.write_text("failed_calls_per_minute = 0\n")
        server.process.send_signal(signal.SIGHUP)
        wait_for_line(server, "reloaded by SIGHUP")
        assert world.outcome("judged_nobody")[0] == "UNAUTHENTICATED"
