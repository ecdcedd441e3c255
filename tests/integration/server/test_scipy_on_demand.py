"""SciPy takes .1 s and 10 MB, and more of it more: only who asks for its numbers waits for it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from judged import Client, IntervalOptions, Judge, MetricOptions, PerQueryValues, QueryGroup

from tests.integration.server_process import wait_for_port_file

SERVER = """
import atexit, sys
from judged_server.__main__ import run
atexit.register(lambda: print(*sys.modules))
run(sys.argv[1:])
"""
BEFORE = PerQueryValues(["a", "b", "c"], [[0.1, 0.5, 0.9]])
AFTER = PerQueryValues(["a", "b", "c"], [[0.2, 0.4, 1.0]])


def judge_and_measure(client: Client) -> None:
    client.judge([QueryGroup("a query", ["some text"], ["some text"])], Judge("exact"))
    assert client.compute_metrics(["precision@1"], BEFORE)["precision@1"].mean == 0.5


def ask_for_an_interval(client: Client) -> None:
    options = MetricOptions(interval=IntervalOptions())
    assert client.compute_metrics(["precision@1"], BEFORE, options)["precision@1"].interval


def compare(client: Client) -> None:
    runs = {"before": BEFORE, "after": AFTER, "again": BEFORE}
    assert client.compare_runs(["precision@1"], runs).comparisons


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (judge_and_measure, set()),
        (ask_for_an_interval, {"scipy", "scipy.special"}),
        (compare, {"scipy", "scipy.special"}),
    ],
)
def test_the_parts_of_scipy_are_loaded_that_a_call_needs(
    calls: Callable[[Client], None], expected: set[str], tmp_path: Path
):
    flags = ["--listen", "127.0.0.1:0", "--port-file", str(tmp_path / "port")]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, *flags], stdout=subprocess.PIPE, stderr=log
        )
    try:
        address = wait_for_port_file(process, tmp_path / "port", tmp_path / "log")
        with Client(address) as client:
            calls(client)
        process.send_signal(signal.SIGTERM)
        loaded = process.communicate(timeout=40)[0].decode().split()
    finally:
        process.kill()
        process.wait()
    assert "judged_server.app" in loaded
    parts = {"scipy", "scipy.special", "scipy.optimize", "scipy.stats"}
    assert parts & set(loaded) == expected
