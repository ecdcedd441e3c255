"""Tests have no network but loopback, nor have the processes that they start."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.offline import NETWORK

ROOT = Path(__file__).resolve().parents[2]
ELSEWHERE = ("192.0.2.1", 9)  # RFC 5737: addresses that nobody has
PROGRAM = """
import os, socket
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
with socket.socket() as outside:
    outside.settimeout(9)
    print(os.environ["JUDGED_TESTS_NETWORK"], outside.connect_ex(("192.0.2.1", 9)))
"""


def test_a_command_reaches_loopback_and_nothing_else() -> None:
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {PROGRAM!r}])"
    command = [sys.executable, "-m", "tests.offline", sys.executable, "-c", child]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    if "the network stays open" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.stdout == f"denied {errno.ENETUNREACH}\n"


def test_this_process_reaches_nothing_else_where_make_test_denied_it() -> None:
    if os.environ.get(NETWORK) != "denied":
        pytest.skip("run by `make test`, on a Linux that allows network namespaces")
    with socket.socket() as outside:
        outside.settimeout(9)
        assert outside.connect_ex(ELSEWHERE) == errno.ENETUNREACH
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo("example.org", 443)
