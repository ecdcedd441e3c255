"""The parts of a server, built from settings."""

from __future__ import annotations

from pathlib import Path

from judged_server import wiring
from judged_server.settings import load


def test_a_container_needs_no_home(monkeypatch, tmp_path: Path):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    flags = {"models_dir": str(tmp_path), "vector_cache": "memory", "llm_cache": "memory"}
    settings = load(flags, None)
    assert wiring.runtime_config(settings).engines is None
    wiring.vector_caches(settings)
    assert wiring.reply_cache(settings) is None
