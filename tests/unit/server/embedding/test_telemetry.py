"""Runtimes of models report to nobody, and leave no trace of their own.

ONNX Runtime keeps a device id and a queue of reports unless it is told not to.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.models import tiny_model

RUN = """
import importlib, sys
sent = []
watched = ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.posix_spawn")
sys.addaudithook(lambda event, args: event in watched and sent.append(event))
module, name, path = sys.argv[1:]
getattr(importlib.import_module(module), name)(path, "mean", "fp32")
sys.exit(bool(sent))
"""


@pytest.mark.parametrize(
    ("module", "name", "runtime"),
    [
        ("session", "OnnxSession", "onnxruntime"),
        ("openvino_session", "OpenVinoSession", "openvino"),
    ],
)
def test_a_runtime_reports_to_nobody_and_leaves_no_trace(
    tmp_path: Path, module: str, name: str, runtime: str
):
    if importlib.util.find_spec(runtime) is None:
        pytest.skip(f"not run: {runtime} is not installed")
    graph, home = tmp_path / "model.onnx", tmp_path / "home"
    graph.write_bytes(tiny_model.graph())
    home.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ORT_", "XDG_"))}
    env = {**kept, "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", RUN, f"judged_server.embedding.runtime.{module}", name]
    subprocess.run([*command, str(graph)], check=True, env=env)
    assert list(home.rglob("*")) == []
