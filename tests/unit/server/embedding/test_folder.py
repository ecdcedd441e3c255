"""Folders as sentence-transformers lays them out: what is understood, and what is refused."""

import pytest
from judged_server.embedding.folder import ModelFolder
from judged_server.embedding.sources import ModelSourceError

from tests.fakes.tiny_model import POSITIONS, WINDOW, write_folder, write_json


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "source")


def test_a_folder_says_what_the_model_is(folder):
    assert ModelFolder.read(folder) == ModelFolder(
        folder / "onnx" / "model.onnx", folder / "tokenizer.json", "mean", True, WINDOW
    )


def test_the_graph_may_lie_beside_the_tokenizer(folder):
    (folder / "onnx" / "model.onnx").rename(folder / "model.onnx")
    assert ModelFolder.read(folder).graph == folder / "model.onnx"


def test_cls_pooling_is_understood_in_both_forms(tmp_path):
    folder = write_folder(tmp_path / "source", pooling="cls")
    assert ModelFolder.read(folder).pooling == "cls"
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
    assert ModelFolder.read(folder).pooling == "cls"


def test_without_a_normalize_module_vectors_are_not_said_to_be_unit_vectors(folder):
    modules = [{"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}]
    write_json(folder / "modules.json", modules)
    assert not ModelFolder.read(folder).normalize
    (folder / "modules.json").unlink()
    assert ModelFolder.read(folder).normalize


def test_the_window_falls_back_to_the_number_of_positions(folder):
    (folder / "sentence_bert_config.json").unlink()
    assert ModelFolder.read(folder).max_tokens == POSITIONS


@pytest.mark.parametrize("name", ["onnx/model.onnx", "tokenizer.json", "1_Pooling/config.json"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelSourceError, match=name.rpartition("/")[2]):
        ModelFolder.read(folder)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "max_tokens"),
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
    ],
)
def test_what_would_be_computed_otherwise_is_refused(folder, name, content, words):
    write_json(folder / name, content)
    with pytest.raises(ModelSourceError, match=words):
        ModelFolder.read(folder)


def test_json_that_is_none_is_named(folder):
    (folder / "modules.json").write_bytes(b"\xff{")
    with pytest.raises(ModelSourceError, match=r"modules\.json can't be read"):
        ModelFolder.read(folder)


@pytest.mark.parametrize("window", [None, 0, -1, True, "256"])
def test_a_window_that_is_no_size_is_refused(folder, window):
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": window})
    write_json(folder / "config.json", {})
    with pytest.raises(ModelSourceError, match="max_seq_length"):
        ModelFolder.read(folder)
