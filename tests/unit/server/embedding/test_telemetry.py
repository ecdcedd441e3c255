from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.fakes.models.tiny_model import write_folder

RUN = """
import sys
from judged_server.embedding.runtime.session import OnnxSession
OnnxSession(sys.argv[1], "mean")
"""


def test_the_runtime_leaves_no_trace_of_its_own(tmp_path: Path):
    """ONNX Runtime keeps a device id and a queue of reports unless it is told not to."""
    source, home = tmp_path / "model", tmp_path / "home"
    write_folder(source)
    home.mkdir()
    (graph,) = source.rglob("*.onnx")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ORT_", "XDG_"))}
    env = {**kept, "HOME": str(home), "TMPDIR": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "-c", RUN, str(graph)], check=True, env=env)
    assert list(home.rglob("*")) == []
