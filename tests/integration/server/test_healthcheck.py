"""The health check of the container image, against a real server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.authority import Authority
from tests.integration.access.test_tls import wait_for_line
from tests.integration.server_process import ServerProcess, running_server


def healthcheck(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "judged_server.healthcheck", *arguments],
        capture_output=True,
        text=True,
        env=settings,
        timeout=30,
        check=False,
    )


class TestHealthcheck:
    def test_passes_when_the_server_at_the_address_serves(self, server: ServerProcess) -> None:
        assert healthcheck(server.address).returncode == 0

    def test_asks_a_server_with_tls_at_its_metrics(self, tmp_path: Path) -> None:
        certificate, key = Authority(tmp_path).server()
        flags = ["--certificate", str(certificate), "--private-key", str(key)]
        known = {"JUDGED_CERTIFICATE": str(certificate), "JUDGED_PRIVATE_KEY": str(key)}
        with running_server(*flags, "--metrics-listen", "127.0.0.1:0") as server:
            address = wait_for_line(server, "ready")["metrics"]
            assert healthcheck(JUDGED_METRICS_LISTEN=address, **known).returncode == 0
        done = healthcheck(JUDGED_METRICS_LISTEN=address, **known)
        assert done.returncode == 1
        assert f"unhealthy: {address}" in done.stderr
        assert "set JUDGED_METRICS_LISTEN" in healthcheck(**known).stderr

    def test_so_where_other_machines_read_its_metrics(self, tmp_path: Path) -> None:
        certificate, key = Authority(tmp_path).server()
        (tmp_path / "token").write_text("0" * 32)
        settings = {
            "certificate": str(certificate),
            "private_key": str(key),
            "metrics_token_file": str(tmp_path / "token"),
        }
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        known = {f"JUDGED_{name.upper()}": value for name, value in settings.items()}
        with running_server(*flags, "--metrics-listen", "0.0.0.0:0") as server:
            address = wait_for_line(server, "ready")["metrics"]
            assert healthcheck(JUDGED_METRICS_LISTEN=address, **known).returncode == 0
            done = healthcheck(JUDGED_METRICS_LISTEN=address, JUDGED_METRICS_CLIENT_CA="x", **known)
        assert "ask /readyz of http_listen" in done.stderr

    @pytest.mark.parametrize("address", ["127.0.0.1:1", "unix:/nowhere/judged.sock"])
    def test_fails_and_says_why_when_nobody_listens(self, address: str) -> None:
        done = healthcheck(JUDGED_LISTEN=address)
        assert done.returncode == 1
        assert f"unhealthy: {address}: UNAVAILABLE" in done.stderr
