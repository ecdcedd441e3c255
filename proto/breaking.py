"""Checks that the contract breaks nobody: against the last release, else the parent commit.

python proto/breaking.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def git(*arguments: str) -> str:
    """Return what git prints, "" when it fails."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def baseline() -> str:
    """Return the newest release tag, else the parent commit, "" when there is neither."""
    return git("describe", "--tags", "--abbrev=0", "--match", "v*") or git("rev-parse", "HEAD~1")


def main() -> int:
    """Compare; return the exit status."""
    against = baseline()
    if not against or not git("ls-tree", against, "proto/buf.yaml"):
        print("no earlier contract to compare with")
        return 0
    buf = Path(sys.executable).parent / "buf"
    source = f"{ROOT / '.git'}#ref={against},subdir=proto"
    done = subprocess.run([buf, "breaking", "proto", "--against", source], cwd=ROOT, check=False)
    if done.returncode:
        print(f"the contract breaks clients of {against}; add, never change", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
