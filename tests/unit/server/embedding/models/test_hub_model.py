"""A model from a hub: exactly the files it needs, of one commit, or nothing in the store."""

import onnx
import pytest
from judged_server.embedding.models import hub
from judged_server.embedding.models.hub import Hub, HubReference
from judged_server.embedding.models.model_dir import ModelOptions
from judged_server.embedding.models.sources import ModelSourceError
from judged_server.embedding.models.store import ModelStore

from tests.fakes.models import tiny_model
from tests.fakes.models.hub import BRANCH, COMMIT, REPOSITORY, folder_files, running_hub

PINNED = HubReference(REPOSITORY, COMMIT)


@pytest.fixture
def folder(tmp_path):
    folder = tiny_model.write_folder(tmp_path / "source")
    (folder / "README.md").write_text("not needed")
    (folder / "model.safetensors").write_bytes(b"not needed")
    return folder


@pytest.fixture
def server(folder):
    with running_hub(folder_files(folder)) as running:
        yield running


@pytest.fixture
def models(tmp_path):
    return ModelStore(tmp_path / "models")


def _add(models, server, reference=PINNED, **options):
    return models.add_from_hub(reference, Hub(server.url), options=ModelOptions(**options))


def test_a_model_is_stored_as_from_a_folder_with_the_commit_it_is_of(models, server, folder):
    manifest = _add(models, server, HubReference(REPOSITORY, BRANCH))
    assert (manifest.name, manifest.source) == ("tiny", f"hf:{REPOSITORY}@{COMMIT}")
    assert models.verify("tiny") == manifest
    by_hand = models.add("by-hand", folder)
    assert manifest.files == by_hand.files
    assert manifest.card().model_sha256 == by_hand.card().model_sha256


def test_exactly_the_needed_files_are_asked_for_the_small_ones_first(models, server):
    _add(models, server)
    assert server.asked() == [
        "config.json",
        "config.json",
        "modules.json",
        "sentence_bert_config.json",
        "tokenizer_config.json",
        "config_sentence_transformers.json",
        "1_Pooling/config.json",
        "tokenizer.json",
        "onnx/model.onnx",
    ]
    assert server.asked("cdn") == ["tokenizer.json", "onnx/model.onnx"]


def test_it_says_what_takes_time(models, server, monkeypatch):
    monkeypatch.setattr(hub, "_LARGE", 1000)
    said: list[str] = []
    models.add_from_hub(PINNED, Hub(server.url), "mine", say=said.append)
    assert said[0] == f"fetching hf:{REPOSITORY}@{COMMIT}"
    assert "  onnx/model.onnx: 0 MB" in said
    assert [model.name for model in models.list()] == ["mine"]


def test_another_graph_is_fetched_in_place_of_the_usual_one(models, server):
    server.files["onnx/model_fp16.onnx"] = tiny_model.half_precision()
    manifest = _add(models, server, graph="onnx/model_fp16.onnx")
    assert manifest.precision == "fp16"
    assert "onnx/model.onnx" not in server.asked()


def test_a_graph_beside_the_tokenizer_is_found(models, server):
    server.files["model.onnx"] = server.files.pop("onnx/model.onnx")
    assert _add(models, server).dimensions == tiny_model.HIDDEN


def test_weights_beside_the_graph_come_along(models, server, tmp_path):
    graph = tmp_path / "model.onnx"
    model = onnx.load_from_string(tiny_model.graph())
    onnx.save(model, graph, save_as_external_data=True, location="model.onnx_data")
    server.files["onnx/model.onnx"] = graph.read_bytes()
    with pytest.raises(ModelSourceError, match=r"onnx/model\.onnx_data is missing"):
        _add(models, server)
    server.files["onnx/model.onnx_data"] = (tmp_path / "model.onnx_data").read_bytes()
    manifest = _add(models, server)
    assert [file.path for file in manifest.files][2:] == ["model.onnx_data"]


def test_weights_that_lead_out_are_never_asked_for(models, server, tmp_path):
    model = onnx.load_from_string(tiny_model.graph())
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../secret")
    server.files["onnx/model.onnx"] = model.SerializeToString()
    with pytest.raises(ModelSourceError, match="outside its own folder"):
        _add(models, server)
    assert not any("secret" in path for path in server.asked())


@pytest.mark.parametrize(
    ("path", "raw", "words"),
    [
        ("config.json", None, "has no config.json"),
        ("tokenizer.json", None, "has no tokenizer.json"),
        ("onnx/model.onnx", None, "--graph"),
        ("1_Pooling/config.json", None, "1_Pooling/config.json is missing"),
        ("modules.json", b'[{"type": "a.Dense", "path": ""}]', "Dense"),
        ("modules.json", b'[{"type": "a.Pooling", "path": "../.."}]', "outside"),
        ("modules.json", b" " * (1 << 20) + b"[]", "modules.json is larger than"),
        ("onnx/model.onnx", b"no graph", "is not an ONNX graph"),
        ("tokenizer.json", b"{}", "not a tokenizer"),
    ],
)
def test_what_is_wrong_with_it_is_named_as_the_hub_has_it(models, server, path, raw, words):
    del server.files[path]
    if raw is not None:
        server.files[path] = raw
    with pytest.raises(ModelSourceError, match=words) as caught:
        _add(models, server)
    assert ".new-" not in caught.value.message
    assert list(models.root.iterdir()) == []


@pytest.mark.parametrize("fault", ["cut 100", "flip", "503", "401", "says 99999999999"])
def test_a_broken_download_leaves_nothing_behind(models, server, fault):
    server.faults["onnx/model.onnx"] = fault
    with pytest.raises(ModelSourceError, match=r"onnx/model\.onnx"):
        _add(models, server)
    assert list(models.root.iterdir()) == []
    server.faults.clear()
    _add(models, server)


def test_a_taken_name_is_refused_before_anything_is_fetched(models, server):
    _add(models, server)
    server.requests.clear()
    with pytest.raises(ModelSourceError, match="there already"):
        _add(models, server)
    assert server.requests == []
