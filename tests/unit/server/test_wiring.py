"""The parts of a server, built from settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from judged_server import wiring
from judged_server.address import Address, AddressError
from judged_server.settings import load


def test_a_container_needs_no_home(monkeypatch, tmp_path: Path):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    flags = {"models_dir": str(tmp_path), "vector_cache": "memory", "llm_cache": "memory"}
    settings = load(flags, None)
    wiring.runtime_config(settings)
    assert wiring.vector_file(settings) is None
    assert wiring.reply_cache(settings) is None


@pytest.mark.parametrize(
    ("flags", "tls", "lacks"),
    [
        ({}, False, "has no TLS"),
        ({}, True, "does not ask who calls"),
        ({"tenants": "t.toml", "insecure": "true"}, False, "tokens would cross the network"),
        ({"reflection": "true", "insecure": "true"}, True, "reflection: "),
    ],
)
def test_an_address_of_other_machines_wants_tls_and_callers(
    flags: dict[str, str], tls: bool, lacks: str
):
    settings = load(flags, None)
    with pytest.raises(AddressError, match=lacks):
        wiring.refuse_open_address(settings, "listen", Address.parse("0.0.0.0:1"), tls=tls)
    wiring.refuse_open_address(settings, "listen", Address.parse("127.0.0.1:1"), tls=tls)
