"""Models from a hub: the files of one commit, whole, or nothing."""

import time
from functools import partial

import onnx
import pytest
from huggingface_hub import HfApi
from judged_server.embedding.models import adding
from judged_server.embedding.models.adding import WritableStore
from judged_server.embedding.models.folder import ModelOptions
from judged_server.embedding.models.store import ModelSourceError

from tests.fakes.models import tiny_model
from tests.fakes.models.hub import BRANCH, COMMIT, REPOSITORY, folder_files, running_hub

PINNED = f"hf:{REPOSITORY}@{COMMIT}"


@pytest.fixture
def folder(tmp_path):
    folder = tiny_model.write_folder(tmp_path / "source")
    (folder / "README.md").write_text("not needed")
    (folder / "model.safetensors").write_bytes(b"not needed")
    return folder


@pytest.fixture
def server(folder, monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda _: None)  # between tries
    with running_hub(folder_files(folder)) as running:
        monkeypatch.setattr(adding, "HfApi", partial(HfApi, endpoint=running.url))
        yield running


@pytest.fixture
def models(tmp_path):
    return WritableStore(tmp_path / "models")


def _add(models, reference=PINNED, **options):
    return models.add_from_hub(reference, options=ModelOptions(**options))


def test_a_model_is_stored_as_from_a_folder_with_the_commit_it_is_of(models, server, folder):
    manifest = _add(models, f"hf:{REPOSITORY}@{BRANCH}")
    assert (manifest.name, manifest.source) == ("tiny", PINNED)
    assert models.load("tiny").manifest == manifest
    by_hand = models.add("by-hand", folder)
    assert manifest.files == by_hand.files
    assert not {"README.md", "model.safetensors"} & set(server.asked())


def test_another_graph_is_fetched_in_place_of_the_usual_one(models, server):
    server.files["onnx/model_fp16.onnx"] = tiny_model.half_precision()
    manifest = _add(models, graph="onnx/model_fp16.onnx")
    assert manifest.precision == "fp16"
    assert "onnx/model.onnx" not in server.asked()


def test_weights_beside_the_graph_come_along(models, server, tmp_path):
    graph = tmp_path / "model.onnx"
    model = onnx.load_from_string(tiny_model.graph())
    onnx.save(model, graph, save_as_external_data=True, location="model.onnx_data")
    server.files["onnx/model.onnx"] = graph.read_bytes()
    with pytest.raises(ModelSourceError, match=r"onnx/model\.onnx_data is missing"):
        _add(models)
    server.files["onnx/model.onnx_data"] = (tmp_path / "model.onnx_data").read_bytes()
    manifest = _add(models)
    assert [file.path for file in manifest.files][2:] == ["model.onnx_data"]


@pytest.mark.parametrize(
    ("path", "fault", "words"),
    [
        ("onnx/model.onnx", "flip", "not the file that was published"),
        ("config.json", "flip", "not the file that was published"),
        ("onnx/model.onnx", "cut 100", "can't be fetched"),
        ("config.json", "401", "HF_TOKEN"),
        ("config.json", "503", "can't be fetched"),
    ],
)
def test_each_fault_is_told_and_leaves_nothing(models, server, path, fault, words):
    server.faults[path] = fault
    with pytest.raises(ModelSourceError, match=words):
        _add(models)
    assert list(models.root.iterdir()) == []


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("hf:org/Other@main", "HF_TOKEN"),
        (f"hf:{REPOSITORY}@refs/pr/1", "check its name and revision"),
        ("hf:Tiny@main", "write hf:ORG/NAME@REVISION"),
        (f"hf:{REPOSITORY}", "write hf:ORG/NAME@REVISION"),
    ],
)
def test_what_is_not_there_is_named(models, server, reference, words):
    with pytest.raises(ModelSourceError, match=words) as caught:
        _add(models, reference)
    assert reference in caught.value.message


def test_a_path_that_leads_out_is_never_asked_for(models, server):
    server.files["../secret.json"] = b"{}"
    _add(models)
    assert not any("secret" in path for path in server.asked())


def test_a_private_model_takes_a_token_that_no_error_shows(models, server, monkeypatch):
    server.token = "hf_canary"  # noqa: S105
    monkeypatch.setenv("HF_TOKEN", "hf_other")
    with pytest.raises(ModelSourceError, match="HF_TOKEN") as caught:
        _add(models)
    assert "other" not in caught.value.message
    monkeypatch.setenv("HF_TOKEN", server.token)
    assert _add(models).name == "tiny"
