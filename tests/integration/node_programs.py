"""Node, and the packages of the programs in `node`, installed once."""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent / "node"
ROOT = FOLDER.parents[2]
PROTO = ROOT / "proto"


def require(tool: str) -> str:
    """Return where the tool is; fail when it is missing."""
    path = shutil.which(tool)
    if path is None:
        pytest.fail(f"{tool} is not on the PATH: install Node.js 18 or newer, which the tests need")
    return path


def run(command: Sequence[str | Path], cwd: Path | None = None) -> str:
    """Return what the command prints; fail with its output when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, cwd=cwd)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}{done.stderr}"
    return done.stdout


def install() -> str:
    """Install the packages of the lock file unless they are there; return where Node is."""
    node, npm = require("node"), require("npm")
    with (FOLDER / "package.json").open() as shared:
        fcntl.flock(shared, fcntl.LOCK_EX)  # several processes may run tests
        if not _complete():
            run([npm, "ci", "--prefix", FOLDER])
    return node


def _complete() -> bool:
    # npm writes this file last: a folder without it was left half installed.
    installed = FOLDER / "node_modules" / ".package-lock.json"
    if not installed.is_file():
        return False
    wanted = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
    there = json.loads(installed.read_text())["packages"]
    return all(
        there.get(name, {}).get("version") == wanted[name]["version"] for name in wanted if name
    )
