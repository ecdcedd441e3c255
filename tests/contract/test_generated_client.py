from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_synchronous_client_is_what_the_asynchronous_one_makes() -> None:
    script = [sys.executable, str(ROOT / "proto/sync.py"), "--check"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
