"""Addresses that keep calling without a valid credential are held off; those with one never are."""

from __future__ import annotations

import json
import time
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
from tests.integration.server_process import ServerProcess, running_server
from tests.integration.tenant_files import new_token

MOST = 2
"""A minute, so that the time between two calls gives none back, however busy the machine is."""


@dataclass(frozen=True)
class World:
    server: ServerProcess
    token: str

    def outcome(self, token: str) -> tuple[str, str]:
        """Return the code and the reason of a call, tried once."""
        with Client(
            self.server.address, credentials=Token(token), max_retries=0, timeout=20
        ) as client:
            try:
                client.server_info()
            except JudgedError as error:
                return error.code, error.reason
        return "OK", ""

    def told(self, code: str) -> int:
        """Return how many lines of the log are of calls that ended so."""
        texts = self.server.log_text().splitlines()
        lines = [json.loads(text) for text in texts if text.endswith("}")]
        return sum(line["event"] == "call" and line["code"] == code for line in lines)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    path = tmp_path / "tenants.toml"
    path.write_text("[tenants.a]\n")
    token = new_token(path, "a")
    with running_server(
        "--tenants",
        str(path),
        "--failed-calls-per-minute",
        str(MOST),
        "--http-listen",
        "127.0.0.1:0",
        "--metrics-listen",
        "127.0.0.1:0",
    ) as server:
        yield World(server, token)


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

    assert wait_for_line(world.server, "failed calls limited")["address"] == "127.0.0.1"
    metrics = get(wait_for_line(world.server, "ready")["metrics"], "/metrics")[2]
    assert 'judged_refusals_total{reason="AUTHENTICATION_LIMIT"} 2.0' in metrics
    while world.told("UNAUTHENTICATED") < MOST:  # a call's line may come after its status
        time.sleep(0.02)
    assert world.told("UNAUTHENTICATED") == MOST
    assert world.told("RESOURCE_EXHAUSTED") == 0
