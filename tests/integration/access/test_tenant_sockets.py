"""Unix sockets that are a tenant's own."""

from __future__ import annotations

from pathlib import Path

import pytest
from judged import Client, PermissionDenied

from tests.integration.server_process import running_server
from tests.integration.tenant_files import new_token


class TestSockets:
    def test_each_has_its_mode_and_tenant(self, tmp_path: Path):
        path = tmp_path / "tenants.toml"
        path.write_text(
            f'[tenants.a]\njudges = ["exact"]\nsockets = [{{ path = "{tmp_path}/a" }}]\n'
            f'[tenants.b]\nsockets = [{{ path = "{tmp_path}/b", mode = "0660" }}]\n'
        )
        new_token(path, "a")
        with running_server("--tenants", str(path)) as server:
            for name, mode, judges in (("a", 0o600, 1), ("b", 0o660, 6)):
                assert (tmp_path / name).stat().st_mode & 0o777 == mode
                with Client(f"unix:{tmp_path}/{name}") as client:
                    found = {judge.kind for judge in client.server_info().judges}
                    assert len(found) >= judges
                    assert (found == {"exact"}) is (name == "a")
            with Client(server.address) as client, pytest.raises(PermissionDenied):
                client.server_info()
        assert not (tmp_path / "a").exists()
