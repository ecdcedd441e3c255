"""A real server for the tests of adapters, from the project's own environment."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from judged import Client

pytest.register_assert_rewrite("tests.adapters.corpus")

SERVER = Path(__file__).resolve().parents[2] / ".venv" / "bin" / "python"


@contextmanager
def serving(folder: Path, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the address of a server with its socket in a folder."""
    address = f"unix:{folder}/judged.sock"
    command = [str(SERVER), "-m", "judged_server", "--listen", address]
    others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    everything = {**others, **(environ or {})}
    with subprocess.Popen(command, env=everything, stderr=subprocess.PIPE) as process:
        try:
            ready = any(b'"ready"' in line for line in process.stderr or ())
            assert ready, "the server did not start"
            # What is not read fills the pipe, and then the server waits for it.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield address
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that runs as long as the tests."""
    with serving(tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.fixture(scope="session")
def client(target: str) -> Iterator[Client]:
    """A client of that server."""
    with Client(target) as connected:
        yield connected
