"""Starts the server of an image, asks for health and verdicts, and stops it with SIGTERM.

    python deploy/try_image.py IMAGE_FOLDER

Run by deploy/check-image.sh in the image's environment and under its Python. Exits 1 with a message
when a step fails.
"""

# ruff: noqa: INP001, S603, S607, T201 - a script that runs commands and prints

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from judged import Client, Judge, QueryGroup

START_S = 30.0
STOP_S = 30.0
HEALTHCHECK = [sys.executable, "-m", "judged_server.healthcheck"]
GROUP = QueryGroup(
    query="where do cats sleep",
    expected=["A cat sleeps on the sofa."],
    retrieved=["The kitten is napping on the couch.", "Interest rates rose by half a point."],
)


def wait_until_healthy(server: subprocess.Popen[bytes]) -> None:
    """Poll the health check that the image declares."""
    ends = time.monotonic() + START_S
    while True:
        check = subprocess.run(HEALTHCHECK, capture_output=True, text=True, check=False)
        if check.returncode == 0:
            return
        if server.poll() is not None or time.monotonic() > ends:
            raise SystemExit(f"the server is not healthy: {check.stderr}")
        time.sleep(0.2)


def expect(what: str, *, holds: bool) -> None:
    """Print a fact; raise SystemExit if it does not hold."""
    if not holds:
        raise SystemExit(f"not so: {what}")
    print(f"ok: {what}")


def is_read_only(folder: Path) -> bool:
    """Return whether this user can neither add to a folder nor change a file in it."""
    files = [path for path in folder.rglob("*") if not path.is_symlink()]
    return not any(os.access(path, os.W_OK) for path in (folder, *files))


def main(image: Path) -> None:
    """Run the steps in the order of a container's life."""
    expect(f"runs as user {os.getuid()} without HOME", holds="HOME" not in os.environ)
    if os.getuid() != image.stat().st_uid:
        expect("nothing in the image can be changed", holds=is_read_only(image))
    server = subprocess.Popen(["judged-server"])
    try:
        wait_until_healthy(server)
        expect("the health check passes", holds=True)
        target = os.environ["JUDGED_LISTEN"]
        socket = Path(target.removeprefix("unix:"))
        mode = socket.stat().st_mode & 0o777
        expect(f"listens on {socket.name} with mode {mode:o}", holds=mode == 0o660)
        with Client(target) as client:
            lexical = client.judge([GROUP], Judge("token_overlap"), timeout=10)
            expect("token_overlap judges", holds=lexical.relevant == [False, False])
            semantic = client.judge([GROUP], Judge("semantic", min_score=0.5), timeout=30)
            scores = [round(score, 3) for score in semantic.score]
            expect(f"semantic judges: {scores}", holds=semantic.relevant == [True, False])
        server.terminate()
        expect("SIGTERM ends it with status 0", holds=server.wait(STOP_S) == 0)
        expect("its socket is gone", holds=not socket.exists())
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
