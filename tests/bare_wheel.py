"""Checks the bare wheel: what it brings, and that its client works against a real server.

python tests/bare_wheel.py            in the bare environment: only what the client needs is there
python tests/bare_wheel.py PYTHON     in the full one: start a server, call it with PYTHON's client
"""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

ALLOWED = {"judged", "grpcio", "protobuf", "typing_extensions", "pip", "setuptools"}
CALL = """
from judged import Client, QueryGroup, TrecRankings
with Client() as client:
    verdicts = client.judge([QueryGroup("q", ["a b c"], ["a b c", "x"])] * 20_000)
    assert verdicts.relevant == [True, False] * 20_000
    table = client.compute_metrics(["ap"], TrecRankings({"1": {"d": 1}}, {"1": {"d": 1.0}}))
    assert table["ap"].mean == 1.0
print("the bare wheel's client works against a real server")
"""


def main() -> None:
    """Run one of the two checks; raise when it fails."""
    if len(sys.argv) == 1:
        installed = {d.metadata["Name"].replace("-", "_").lower() for d in distributions()}
        if installed - ALLOWED:
            raise SystemExit(f"the bare wheel brings more than it may: {installed - ALLOWED}")
        print("the bare wheel brings:", *sorted(installed - {"pip", "setuptools"}))
        return
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from tests.integration.server_process import running_server

    with running_server() as server:
        subprocess.run([sys.argv[1], "-c", CALL], check=True, env={"JUDGED_TARGET": server.address})


if __name__ == "__main__":
    main()
