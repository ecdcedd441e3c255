"""Locks what the image installs: exact releases, each with the hashes of its files.

    python deploy/lock.py            resolve again, with uv
    python deploy/lock.py --check    exit 1 if pyproject.toml has changed since

Releases younger than COOL_DOWN are ignored: most compromised releases are detected within that
time.
"""

# ruff: noqa: INP001, S603, T201 - a script that runs a command and prints

from __future__ import annotations

import hashlib
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = Path(sys.executable).with_name("uv")
COOL_DOWN = "7 days"
EXTRAS = ("server", "otel", "postgres")
"""The project's extras in the image."""
_HEADER = "# Made by `make lock`, of requirements with the SHA-256 "


def requirements() -> dict[Path, list[str]]:
    """Return the requirements of pyproject.toml, by the file that locks them."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = declared["project"]
    wanted = list(project["dependencies"])
    for extra in EXTRAS:
        wanted += project["optional-dependencies"][extra]
    return {
        ROOT / "deploy/requirements.lock": sorted(wanted),
        ROOT / "deploy/build-requirements.lock": sorted(declared["build-system"]["requires"]),
    }


def header(wanted: list[str]) -> str:
    """Return the first line of the lock of these requirements."""
    return _HEADER + hashlib.sha256("\n".join(wanted).encode()).hexdigest()


def stale() -> list[Path]:
    """Return the locks that do not match the requirements of pyproject.toml."""
    return [
        path
        for path, wanted in requirements().items()
        if not path.exists() or path.read_text().partition("\n")[0] != header(wanted)
    ]


def lock(path: Path, wanted: list[str]) -> None:
    """Resolve requirements for all platforms of the image and write the lock."""
    command = [
        str(UV),
        "pip",
        "compile",
        "-",
        "--quiet",
        "--no-header",
        "--no-annotate",
        "--generate-hashes",
        "--universal",
        "--python-version",
        "3.11",
        "--only-binary",
        ":all:",
        "--exclude-newer",
        COOL_DOWN,
    ]
    done = subprocess.run(
        command, input="\n".join(wanted), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    path.write_text(f"{header(wanted)}\n{done.stdout}")
    print(f"{path.relative_to(ROOT)}: {done.stdout.count('==')} releases")


def main(arguments: list[str]) -> int:
    """Run the script; return the exit status."""
    if arguments == ["--check"]:
        for path in stale():
            print(f"{path.relative_to(ROOT)} is stale; run: make lock")
        return 1 if stale() else 0
    for path, wanted in requirements().items():
        lock(path, wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
