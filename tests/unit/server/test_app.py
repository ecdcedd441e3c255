"""A server, built from settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from judged_server.address import Address, AddressError
from judged_server.app import App, refuse_open_address
from judged_server.settings import load


async def test_a_container_needs_no_home(monkeypatch, tmp_path: Path):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    flags = {"models_dir": str(tmp_path), "vector_cache": "memory", "llm_cache": "memory"}
    App(load(flags, None))


@pytest.mark.parametrize(
    ("flags", "tls", "lacks"),
    [
        ({}, False, "has no TLS"),
        ({}, True, "does not ask who calls"),
        ({"tenants": "t.toml", "insecure": "true"}, False, "tokens would cross the network"),
    ],
)
def test_an_address_of_other_machines_wants_tls_and_callers(
    flags: dict[str, str], tls: bool, lacks: str
):
    settings = load(flags, None)
    with pytest.raises(AddressError, match=lacks):
        refuse_open_address(settings, "listen", Address.parse("0.0.0.0:1"), tls=tls)
    refuse_open_address(settings, "listen", Address.parse("127.0.0.1:1"), tls=tls)
