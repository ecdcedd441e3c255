"""Folders as sentence-transformers lays them out: what is understood, and what is refused."""

import numpy as np
import onnx
import pytest
from judged_server.embedding.models.folder import (
    ModelFolder,
    ModelOptions,
    external_files,
    weight_precision,
)
from judged_server.embedding.models.store import ModelSourceError
from onnx import TensorProto, helper, numpy_helper

from tests.fakes.models.tiny_model import WINDOW, write_folder, write_json


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "source")


def test_a_folder_says_what_the_model_is(folder):
    assert ModelFolder.read(folder) == ModelFolder(
        folder / "onnx" / "model.onnx", folder / "tokenizer.json", "mean", True, WINDOW
    )


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode": "lasttoken"}, "last"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean"),
    ],
)
def test_other_poolings_are_understood(folder, config, pooling):
    write_json(folder / "1_Pooling" / "config.json", config)
    assert ModelFolder.read(folder).pooling == pooling


@pytest.mark.parametrize(
    ("config", "prefix"),
    [
        ({}, ""),
        ({"prompts": {"query": "query: ", "passage": "passage: "}}, "passage: "),
        ({"prompts": {"corpus": "c: ", "passage": "p: ", "document": "d: "}}, "d: "),
        ({"prompts": {"query": "Find: "}, "default_prompt_name": None}, ""),
        ({"prompts": {"query": "Find: "}, "default_prompt_name": "query"}, "Find: "),
        ({"prompts": {"document": ""}, "default_prompt_name": "document"}, ""),
    ],
)
def test_the_prefix_is_that_of_a_passage(folder, config, prefix):
    write_json(folder / "config_sentence_transformers.json", config)
    assert ModelFolder.read(folder).prefix == prefix
    assert ModelFolder.read(folder, ModelOptions(prefix="mine: ")).prefix == "mine: "
    assert ModelFolder.read(folder, ModelOptions(prefix="")).prefix == ""


def test_a_prompt_outside_the_pooling_is_refused_unless_there_is_none(folder):
    config = {"pooling_mode_mean_tokens": True, "include_prompt": False}
    write_json(folder / "1_Pooling" / "config.json", config)
    assert ModelFolder.read(folder).prefix == ""
    write_json(folder / "config_sentence_transformers.json", {"prompts": {"document": "d: "}})
    with pytest.raises(ModelSourceError, match='--prefix ""'):
        ModelFolder.read(folder)
    assert ModelFolder.read(folder, ModelOptions(prefix="")).pooling == "mean"


def test_lower_casing_outside_the_tokenizer_is_refused(folder):
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 9, "do_lower_case": True})
    with pytest.raises(ModelSourceError, match="do_lower_case"):
        ModelFolder.read(folder)


@pytest.mark.parametrize("config", [{}, {"max_seq_length": None}, {"max_seq_length": True}])
def test_a_folder_without_a_window_needs_one_set(folder, config):
    write_json(folder / "sentence_bert_config.json", config)
    with pytest.raises(ModelSourceError, match="set --max-tokens"):
        ModelFolder.read(folder)
    assert ModelFolder.read(folder, ModelOptions(max_tokens=8)).max_tokens == 8


def test_without_a_normalize_module_vectors_are_not_said_to_be_unit_vectors(folder):
    modules = [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
    write_json(folder / "modules.json", modules)
    assert not ModelFolder.read(folder).normalize
    (folder / "modules.json").unlink()
    assert ModelFolder.read(folder).normalize


@pytest.mark.parametrize("name", ["onnx/model.onnx", "tokenizer.json", "1_Pooling/config.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelSourceError, match=name.rpartition("/")[2]):
        ModelFolder.read(folder)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("1_Pooling/config.json", {"pooling_mode_weightedmean_tokens": True}, "weightedmean"),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": 1}, "none"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
            r"cls \+ mean",
        ),
        ("1_Pooling/config.json", {}, "none"),
        ("1_Pooling/config.json", [], "not a JSON dict"),
        ("modules.json", [{"type": "sentence_transformers.models.Dense"}], "Dense"),
        ("modules.json", [{"type": "sentence_transformers.models.Transformer"}], "no Pooling"),
        ("modules.json", ["Pooling"], "not a list of modules"),
        ("modules.json", {}, "not a JSON list"),
        ("modules.json", [{"type": "a.Pooling", "path": "../1_Pooling"}], "outside"),
        ("modules.json", [{"type": "a.Pooling", "path": ""}], "outside"),
        (
            "config_sentence_transformers.json",
            {"prompts": []} | {"default_prompt_name": "a"},
            "--p",
        ),
        ("config_sentence_transformers.json", {"prompts": {"document": 1}}, "--prefix"),
        ("config_sentence_transformers.json", {"prompts": {"document": "p" * 1001}}, "--prefix"),
        ("config_sentence_transformers.json", {"default_prompt_name": ["a"]}, "--prefix"),
    ],
)
def test_what_would_be_computed_otherwise_is_refused(folder, name, content, words):
    write_json(folder / name, content)
    with pytest.raises(ModelSourceError, match=words):
        ModelFolder.read(folder)


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
