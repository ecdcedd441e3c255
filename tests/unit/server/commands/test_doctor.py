"""What doctor says of folders, without a server."""

import os

from judged_server.commands import doctor
from judged_server.settings import load


def test_a_folder_that_several_need_is_told_of_for_each(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "configure", lambda _: None)
    monkeypatch.setattr(os, "access", lambda *_: False)
    flags = {
        "listen": "127.0.0.1:0",
        "models_dir": str(tmp_path),
        "vector_cache": "disk",
        "vector_cache_dir": str(tmp_path / "vectors"),
        "audit_log": str(tmp_path / "audit.jsonl"),
    }
    said: list[str] = []
    assert doctor.diagnose(load(flags), said.append) == 2
    rule = f"{tmp_path} can't be written to; name another folder"
    assert f"warn  vectors: {rule}" in said
    assert f"BAD   audit log: {rule}" in said


def test_a_port_file_that_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "configure", lambda _: None)
    flags = {"listen": "127.0.0.1:0", "models_dir": str(tmp_path), "port_file": str(tmp_path)}
    said: list[str] = []
    assert doctor.diagnose(load(flags), said.append) == 2
    assert f"BAD   port file: {tmp_path}: is a folder; name a file" in said
