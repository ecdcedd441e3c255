"""Want of memory in the runtime itself: told apart from a fault of the texts, and survived."""

import subprocess
import sys

import pytest

from tests.fakes.models import tiny_model

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="not run: limits a process by RLIMIT_AS"
)

RUN = """
import resource, sys
import numpy as np
from pathlib import Path
from judged_server.embedding.runtime.session import OnnxSession
from judged_server.embedding.batching import is_memory

session = OnnxSession(sys.argv[1], "mean")
few, many = (np.full((rows, 12), 7, np.int64) for rows in (2, 200_000))
session.run(few, np.ones_like(few))
mask = np.ones_like(many)
fields = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
in_use = next(int(field[1]) * 1024 for field in fields if field[0] == "VmSize:")
resource.setrlimit(resource.RLIMIT_AS, (in_use + (200 << 20), resource.RLIM_INFINITY))
try:
    session.run(many, mask)
except BaseException as error:
    print("memory" if is_memory(error) else repr(error))
else:
    print("it sufficed")
print(session.run(few, np.ones_like(few)).shape)
"""


def test_a_batch_that_does_not_fit_is_want_of_memory_and_the_next_one_runs(tmp_path):
    (tmp_path / "model.onnx").write_bytes(tiny_model.graph())
    command = [sys.executable, "-c", RUN, str(tmp_path / "model.onnx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout.splitlines() == ["memory", "(2, 16)"], done.stderr
