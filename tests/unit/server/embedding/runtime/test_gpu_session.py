"""The session for GPUs, run on the CPU provider: bound buffers, fp16, refusals."""

import threading

import numpy as np
import onnx
import pytest
from judged_server.embedding.runtime import gpu_session
from judged_server.embedding.runtime.backend import UnusableGraphError
from judged_server.embedding.runtime.gpu_session import GpuSession, to_fp16
from judged_server.embedding.runtime.host_memory import ordinary
from judged_server.embedding.runtime.onnx_session import EncoderSession, UnusableDeviceError
from onnx import TensorProto, helper

from tests.fakes.models import tiny_model

CPU = "CPUExecutionProvider"
IDS = np.array([[2, 9, 17, 3], [2, 30, 3, 0]], np.int64)
MASK = np.array([[1, 1, 1, 1], [1, 1, 1, 0]], np.int64)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "model.onnx").write_bytes(tiny_model.graph())
    return str(tmp_path / "model.onnx")


def _on_cpu(graph, pooling="mean", precision="fp32"):
    return GpuSession(graph, pooling, precision, provider=CPU)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "last"])
def test_bound_buffers_give_the_vectors_of_the_reference(path, pooling):
    vectors = _on_cpu(path, pooling).run(IDS, MASK)
    assert vectors.dtype == np.float32
    np.testing.assert_array_equal(vectors, EncoderSession(path, pooling).run(IDS, MASK))


def test_a_vector_outlives_the_next_run(path):
    session = _on_cpu(path, "cls")
    first = session.run(IDS, MASK)
    kept = first.copy()
    session.run(IDS[::-1].copy(), MASK[::-1].copy())
    np.testing.assert_array_equal(first, kept)


def test_shapes_may_shrink_and_grow(path):
    session, reference = _on_cpu(path), EncoderSession(path, "mean")
    for rows, tokens in [(1, 3), (40, 12), (2, 5), (300, 12), (1, 2)]:
        ids = np.random.default_rng(rows).integers(5, 40, (rows, tokens))
        mask = np.ones_like(ids)
        np.testing.assert_allclose(session.run(ids, mask), reference.run(ids, mask), atol=1e-6)


def test_threads_do_not_share_buffers(path):
    session = _on_cpu(path)
    rng = np.random.default_rng(3)
    batches = [rng.integers(5, 40, (rows, 9)) for rows in range(1, 9)]
    expected = [session.run(ids, np.ones_like(ids)) for ids in batches]
    found = {}

    def work(number):
        for _ in range(20):
            ids = batches[number]
            found[number] = session.run(ids, np.ones_like(ids))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, vectors in enumerate(expected):
        np.testing.assert_array_equal(found[number], vectors)


def test_token_types_are_zero_where_the_graph_asks_for_them(path):
    raw = tiny_model.with_token_types()
    np.testing.assert_allclose(_on_cpu(raw).run(IDS, MASK), _on_cpu(path).run(IDS, MASK), atol=1e-6)


def test_a_graph_that_does_not_tell_the_size_of_its_vectors_is_asked(path):
    def forget(model):
        size = model.graph.output[0].type.tensor_type.shape.dim[2]
        size.Clear()
        size.dim_param = "size"

    # The last node's shape is inferred from the weights, unless it is taken through another.
    raw = tiny_model.edited(forget)
    np.testing.assert_array_equal(_on_cpu(raw).run(IDS, MASK), _on_cpu(path).run(IDS, MASK))


class TestHalfPrecision:
    def test_it_is_near_the_reference_and_is_not_it(self, path):
        raw = to_fp16(path)
        types = {tensor.data_type for tensor in onnx.load_from_string(raw).graph.initializer}
        assert TensorProto.FLOAT not in types
        session = _on_cpu(raw, precision="fp16")
        away = np.abs(session.run(IDS, MASK) - EncoderSession(path, "mean").run(IDS, MASK)).max()
        assert 0 < away < 5e-3
        assert session.facts.precision == "fp16"

    def test_padding_is_not_seen(self, path):
        session = _on_cpu(to_fp16(path), precision="fp16")
        alone = session.run(IDS[1:, :3].copy(), MASK[1:, :3].copy())
        np.testing.assert_allclose(session.run(IDS, MASK)[1:], alone, atol=1e-3)

    def test_what_can_not_be_converted_says_so(self, tmp_path):
        (tmp_path / "bad.onnx").write_bytes(b"junk")
        with pytest.raises(UnusableGraphError, match=r"converted to fp16.*embedding_precision"):
            to_fp16(str(tmp_path / "bad.onnx"))


def test_a_provider_that_is_not_there_is_refused(path):
    with pytest.raises(UnusableDeviceError, match="does not have it"):
        GpuSession(path, "mean", "fp32")


def test_memory_is_page_locked_on_a_gpu_and_ordinary_on_the_cpu(monkeypatch, caplog):
    def taken(size):
        raise NotImplementedError

    monkeypatch.setattr(gpu_session, "page_locked", lambda: taken)
    assert gpu_session._allocator("CUDAExecutionProvider") is taken
    assert gpu_session._allocator(CPU) is ordinary
    monkeypatch.setattr(gpu_session, "page_locked", lambda: None)
    assert gpu_session._allocator("CUDAExecutionProvider") is ordinary
    assert "copies to the GPU are slower" in caplog.text


@pytest.mark.parametrize("raw", [b"", b"\0" * 100, b"junk"])
def test_an_unusable_graph_says_why(raw):
    with pytest.raises(UnusableGraphError):
        _on_cpu(raw)


def test_an_output_of_another_type_is_refused():
    nodes = [
        helper.make_node("Unsqueeze", ["input_ids", "axes"], ["last_hidden_state"]),
    ]
    shape = ["b", "s"]
    graph = helper.make_graph(
        [helper.make_node("Constant", [], ["axes"], value_ints=[2]), *nodes],
        "g",
        [
            helper.make_tensor_value_info(name, TensorProto.INT64, shape)
            for name in ("input_ids", "attention_mask")
        ],
        [helper.make_tensor_value_info("last_hidden_state", TensorProto.INT64, [*shape, 1])],
    )
    opset = helper.make_opsetid("", 17)
    raw = helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()
    with pytest.raises(UnusableGraphError, match=r"its output is tensor\(int64\)"):
        _on_cpu(raw)
