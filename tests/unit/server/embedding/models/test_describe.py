"""A look into a graph: external weights stay inside the folder, neighbours have no say."""

import numpy as np
import onnx
import pytest
from judged_server.embedding.models.graph import (
    external_files,
    weight_precision,
)
from judged_server.embedding.models.store import ModelSourceError
from onnx import TensorProto, helper, numpy_helper


def _external(location: str) -> TensorProto:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return tensor


def _model(nodes=(), initializers=()) -> onnx.ModelProto:
    return helper.make_model(helper.make_graph(list(nodes), "g", [], [], list(initializers)))


def _in_a_branch(tensor: TensorProto) -> onnx.ModelProto:
    constant = helper.make_node("Constant", [], ["c"], value=tensor)
    branch = helper.make_graph([constant], "b", [], [])
    return _model([helper.make_node("If", ["x"], ["y"], then_branch=branch, else_branch=branch)])


@pytest.mark.parametrize("wrap", [lambda tensor: _model(initializers=[tensor]), _in_a_branch])
@pytest.mark.parametrize("location", ["../w.bin", "a/../../w.bin", "/etc/passwd", "", "..\\w"])
def test_weights_outside_the_folder_are_refused_wherever_they_hide(tmp_path, wrap, location):
    (tmp_path / "w.bin").write_bytes(bytes(8))
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(ModelSourceError, match="outside its own folder"):
        external_files(wrap(_external(location)), folder)


def test_a_link_that_leads_out_is_refused(tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(8))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").symlink_to(tmp_path / "w.bin")
    with pytest.raises(ModelSourceError, match="cp -rL"):
        external_files(_model(initializers=[_external("w.bin")]), folder)


@pytest.mark.parametrize(
    ("dtype", "precision"), [(np.float32, "fp32"), (np.float16, "fp16"), (np.int8, "int8")]
)
def test_precision_is_that_of_most_weights(dtype, precision):
    weights = numpy_helper.from_array(np.zeros(10, dtype), "w")
    bias = numpy_helper.from_array(np.zeros(2, np.float32), "b")
    assert weight_precision(_model(initializers=[weights, bias])) == precision
