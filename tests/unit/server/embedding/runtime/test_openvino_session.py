"""OpenVINO: the vectors of the reference at fp32, the same in any company at bf16, or a reason."""

import numpy as np
import pytest
from judged_server.embedding.runtime.session import OnnxSession, UnusableGraphError

from tests.fakes.models import tiny_model

pytest.importorskip("openvino", reason="not run: OpenVINO is not installed")

from judged_server.embedding.runtime.openvino_session import OpenVinoSession

IDS = np.array([[2, 9, 17, 3], [2, 30, 3, 0]], np.int64)
MASK = np.array([[1, 1, 1, 1], [1, 1, 1, 0]], np.int64)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "model.onnx").write_bytes(tiny_model.graph())
    return str(tmp_path / "model.onnx")


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_at_fp32_are_those_of_the_reference(path, pooling):
    vectors = OpenVinoSession(path, pooling, "fp32").run(IDS, MASK)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, OnnxSession(path, pooling).run(IDS, MASK), atol=1e-5)


def test_a_precision_that_openvino_would_not_run_is_refused(path, monkeypatch):
    class Stubborn:
        def read_model(self, path):
            return core.read_model(path)

        def compile_model(self, graph, device, options):
            return core.compile_model(graph, device, {**options, "INFERENCE_PRECISION_HINT": "f32"})

    import openvino

    core = openvino.Core()
    monkeypatch.setattr(openvino, "Core", Stubborn)
    with pytest.raises(UnusableGraphError, match=r"in f32, not in bf16.*embedding_precision"):
        OpenVinoSession(path, "mean", "bf16")
