"""Loading: checked files to an embedder, or the file that is to blame and what to run."""

import dataclasses

import pytest
from judged_server.embedding.models.loading import load_embedder
from judged_server.embedding.runtime.backend import Backend, RuntimeConfig
from judged_server.errors import ModelDamaged
from judged_server.settings import SettingsError

from tests.fakes.models import tiny_model


@pytest.fixture
def files(tmp_path):
    return tiny_model.stored_files(tmp_path)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("raw", [b"", b"{}", b"\x08\x08junk"])
def test_a_file_changed_after_its_check_is_damage(files, name, raw):
    (files.folder / name).write_bytes(raw)
    with pytest.raises(ModelDamaged) as error:
        load_embedder(files)
    assert name in error.value.message
    assert "judged-server models add" in error.value.message


def test_another_dimension_than_the_manifests_is_damage(files):
    other = dataclasses.replace(files.manifest, dimensions=384)
    with pytest.raises(ModelDamaged, match="have 16 dimensions, expected 384"):
        load_embedder(dataclasses.replace(files, manifest=other))


def test_a_runtime_that_takes_the_cpu_for_a_device_is_refused(files, monkeypatch):
    import onnxruntime as ort

    real = ort.InferenceSession
    monkeypatch.setattr(
        ort, "InferenceSession", lambda path, options, providers: real(path, options)
    )
    with pytest.raises(SettingsError, match=r"backend cuda: .*took CPUExecutionProvider"):
        load_embedder(files, RuntimeConfig(Backend("cuda")))
