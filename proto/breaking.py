"""Checks that the contract breaks nobody: against the last release, else the parent commit.

A release is held to the rules FILE: code that was generated from it goes on compiling. Before the
first one nobody has such code, so a field may go, if its number and its name are reserved, and a
commit whose message has the line "Contract: redesigned" may change anything.

python proto/breaking.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# In place of what buf.yaml says, which holds for releases.
UNRELEASED = '{"version":"v2","breaking":{"use":["WIRE_JSON"]}}'


REDESIGNED = "Contract: redesigned"


def git(*arguments: str) -> str:
    """Return what git prints, "" when it fails."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def release() -> str:
    """Return the newest release tag, "" when there is none."""
    return git("describe", "--tags", "--abbrev=0", "--match", "v*")


def main() -> int:
    """Compare; return the exit status."""
    released = release()
    if not released and REDESIGNED in git("log", "-1", "--format=%B").splitlines():
        print("the commit redesigns the contract, and no release has the old one")
        return 0
    against = released or git("rev-parse", "HEAD~1")
    if not against or not git("ls-tree", against, "proto/buf.yaml"):
        print("no earlier contract to compare with")
        return 0
    buf = Path(sys.executable).parent / "buf"
    source = f"{ROOT / '.git'}#ref={against},subdir=proto"
    rules = [] if released else ["--config", UNRELEASED]
    done = subprocess.run(
        [buf, "breaking", ".", "--against", source, *rules], cwd=ROOT / "proto", check=False
    )
    if done.returncode:
        print(f"the contract breaks clients of {against}; add, never change", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
